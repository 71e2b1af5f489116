"""WooCommerce's orders as the plugin "Order Export & Order Import for WooCommerce" exports them: a row per order."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation

from lib.giftcards.order_files.shops import Item, Skip, Values

_PAID = ("processing", "completed")
_NOT_PAID = ("pending", "on-hold", "checkout-draft", "failed")
_GONE = ("cancelled", "refunded", "trash")
_ITEM = re.compile(
    r"name:(?P<name>.*?)\|(?:.*?\|)?quantity:(?P<quantity>[^|]*)\|total:(?P<total>[^|]*)\|sub_total:(?P<sub_total>[^|]*)",
    re.DOTALL,
)
_NUMBERED = re.compile(r"lineitem[0-9]{1,3}")


class WooCommerce:
    """Written after version 2 of the plugin by WebToffee."""

    name = "woocommerce"
    title = "WooCommerce's export (by the plugin Order Export & Order Import)"
    required: tuple[str, ...] = ("order_id", "status", "order_currency", "billing_email")
    optional: tuple[str, ...] = ("order_number", "paid_date", "billing_first_name", "billing_last_name", "refund_items")
    key = "order_id"
    ids: tuple[str, ...] = ("order_id", "order_number")
    email = "billing_email"
    currency = "order_currency"

    def is_item(self, key: str) -> bool:
        """See `Layout`."""
        return bool(_NUMBERED.fullmatch(key))

    def check_status(self, order: Values) -> None:
        """See `Export`. An order to be paid on delivery is processed before it is paid."""
        status = order["status"].casefold().removeprefix("wc-")
        if status in _GONE:
            raise Skip("is cancelled or refunded")
        if status in _NOT_PAID or ("paid_date" in order and not order["paid_date"]):
            raise Skip("is not paid")
        if order.get("refund_items"):
            raise ValueError("the order is refunded at least in part: order the cards that remain one by one")
        if status not in _PAID:
            raise ValueError("status is not one that is known, such as completed")

    def number(self, order: Values) -> str:
        """See `Export`."""
        return order.get("order_number") or order["order_id"]

    def items(self, rows: Sequence[Values]) -> Iterator[Item]:
        """See `Export`."""
        if not any(self.is_item(name) for name in rows[0]):
            raise ValueError("the file has no column line_item_1: export the orders with their items")
        for row in rows:
            for name, cell in row.items():
                if self.is_item(name) and cell.strip():
                    yield _item(cell)

    def names(self, order: Values) -> tuple[str, str | None]:
        """See `Export`."""
        return order.get("billing_first_name", ""), order.get("billing_last_name") or None


def _item(cell: str) -> Item:
    matched = _ITEM.match(cell.strip())
    if not matched:
        raise ValueError("an item is not of the form name:…|quantity:…|total:…|sub_total:…")
    try:
        price = f"{(Decimal(matched['sub_total']) / Decimal(matched['quantity'])).normalize():f}"
    except (InvalidOperation, ZeroDivisionError):
        price = matched["sub_total"]
    return Item(matched["name"], matched["quantity"], price, matched["total"] != matched["sub_total"])
