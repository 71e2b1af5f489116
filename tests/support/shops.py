"""Files as shops export them, with the columns of real exports."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

GIFT_CARD = "Gift Card"
Item = tuple[str, str, str]


@dataclass(frozen=True)
class Export:
    columns: tuple[str, ...]
    number: str
    email: str
    currency: str
    values: dict[str, str]


def _columns(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(","))


ORDERS = {
    "shopify": Export(
        _columns(
            """Name,Email,Financial Status,Paid at,Fulfillment Status,Fulfilled at,Accepts Marketing,Currency,Subtotal,
Shipping,Taxes,Total,Discount Code,Discount Amount,Shipping Method,Created at,Lineitem quantity,Lineitem name,Lineitem
price,Lineitem compare at price,Lineitem sku,Lineitem requires shipping,Lineitem taxable,Lineitem fulfillment
status,Billing Name,Billing Street,Billing Address1,Billing City,Billing Zip,Billing Country,Billing Phone,Shipping
Name,Shipping Zip,Notes,Note Attributes,Cancelled at,Payment Method,Payment Reference,Refunded Amount,Vendor,Id,Tags,
Risk Level,Source,Lineitem discount,Tax 1 Name,Tax 1 Value,Phone,Receipt Number,Duties""".replace(",\n", ",")
        ),
        "Name",
        "Email",
        "Currency",
        {"Financial Status": "paid", "Billing Name": "Kate Rodgers", "Billing Zip": "'75008", "Id": "7.41E+12",
         "Refunded Amount": "0.00"},
    ),
    "woocommerce": Export(
        _columns(
            """order_id,order_number,order_date,paid_date,status,shipping_total,order_total,order_currency,
payment_method,transaction_id,customer_id,customer_email,billing_first_name,billing_last_name,billing_email,
billing_phone,customer_note,shipping_items,refund_items,order_notes,line_item_1,line_item_2,line_item_3""".replace(
                ",\n", ","
            )
        ),
        "order_id",
        "billing_email",
        "order_currency",
        {"status": "completed", "paid_date": "2026-01-01 10:00:00", "billing_first_name": "Kate",
         "billing_last_name": "Rodgers"},
    ),
    "square": Export(
        _columns(
            """Order,Order Name,Order Date,Currency,Order Subtotal,Order Shipping Price,Order Tax Total,Order Total,
Order Refunded Amount,Fulfillment Date,Fulfillment Type,Fulfillment Status,Channels,Fulfillment Location,
Fulfillment Notes,Recipient Name,Recipient Email,Recipient Phone,Recipient Address,Item Quantity,Item Name,
Item SKU,Item Variation,Item Modifiers,Item Price,Item Options Total Price,Item Total Price""".replace(",\n", ",")
        ),
        "Order",
        "Recipient Email",
        "Currency",
        {"Recipient Name": "Kate Rodgers", "Fulfillment Status": "Completed"},
    ),
}  # fmt: skip


def shop_file(shop: str, *orders: dict[str, Any]) -> str:
    """A file with orders: each may have `number`, `items` of (name, quantity, price), `discount` and other `values`."""
    export = ORDERS[shop]
    out = io.StringIO()
    writer = csv.DictWriter(out, export.columns, restval="")
    writer.writeheader()
    for order in orders:
        given = {export.number: "#1001", export.email: "kate@example.com", export.currency: "USD"} | export.values
        given |= {export.number: order["number"]} if "number" in order else {}
        given |= order.get("values", {})
        items = order.get("items", [(GIFT_CARD, "1", "25.00")])
        writer.writerows(_rows(shop, given, items, discount=order.get("discount", "0.00")))
    return out.getvalue()


def _rows(shop: str, order: dict[str, str], items: list[Item], *, discount: str) -> Iterator[dict[str, str]]:
    if shop == "woocommerce":
        yield order | {f"line_item_{n}": _line_item(*item, discount) for n, item in enumerate(items, start=1)}
        return
    number, email = ORDERS[shop].number, ORDERS[shop].email
    for at, (name, quantity, price) in enumerate(items):
        row = order if at == 0 else {number: order[number], email: order[email]}
        if shop == "shopify":
            item = {"Lineitem name": name, "Lineitem quantity": quantity, "Lineitem price": price}
            yield row | item | {"Lineitem discount": discount}
        else:
            yield row | {"Item Name": name, "Item Quantity": quantity, "Item Price": f"${price}"}


def _line_item(name: str, quantity: str, price: str, discount: str) -> str:
    try:
        sum_ = f"{float(price) * float(quantity):.2f}"
    except ValueError:
        sum_ = price
    total = sum_ if discount == "0.00" else "1.00"
    return f"name:{name}|product_id:7|sku:|quantity:{quantity}|total:{total}|sub_total:{sum_}|tax:0.00"
