"""Shopify's export of orders: one row per item, of which the first has the order's own columns."""

from collections.abc import Iterator, Sequence

from lib.giftcards.order_files.shops import Item, Skip, Values, is_more_than_nothing, split_name

_NOT_PAID = ("pending", "authorized", "partially_paid", "expired", "unpaid")
_GONE = ("refunded", "voided")


class Shopify:
    """Written after the columns of 2024 to 2026."""

    name = "shopify"
    title = "Shopify's export"
    required: tuple[str, ...] = (
        "Name",
        "Email",
        "Financial Status",
        "Currency",
        "Lineitem quantity",
        "Lineitem name",
        "Lineitem price",
    )
    optional: tuple[str, ...] = (
        "Billing Name",
        "Shipping Name",
        "Cancelled at",
        "Refunded Amount",
        "Lineitem discount",
    )
    key = "Name"
    ids: tuple[str, ...] = ("Name",)
    email = "Email"
    currency = "Currency"

    def is_item(self, key: str) -> bool:
        """See `Layout`."""
        return False

    def check_status(self, order: Values) -> None:
        """See `Export`."""
        status = order["Financial Status"].casefold().replace(" ", "_")
        if order.get("Cancelled at") or status in _GONE:
            raise Skip("is cancelled or refunded")
        if status in _NOT_PAID:
            raise Skip("is not paid")
        if status == "partially_refunded" or is_more_than_nothing(order.get("Refunded Amount", "")):
            raise ValueError("the order is refunded in part: order the cards that remain one by one")
        if status != "paid":
            raise ValueError("Financial Status is not one that is known, such as paid")

    def number(self, order: Values) -> str:
        """See `Export`. The name, such as #1001: spreadsheets round the column Id."""
        return order["Name"]

    def items(self, rows: Sequence[Values]) -> Iterator[Item]:
        """See `Export`."""
        for row in rows:
            is_discounted = is_more_than_nothing(row.get("Lineitem discount", "").strip())
            yield Item(row["Lineitem name"], row["Lineitem quantity"], row["Lineitem price"], is_discounted)

    def names(self, order: Values) -> tuple[str, str | None]:
        """See `Export`. The buyer is the recipient."""
        return split_name(order.get("Billing Name") or order.get("Shipping Name") or "")
