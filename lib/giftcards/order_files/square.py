"""Square Online's export of orders: one row per item."""

from collections.abc import Iterator, Sequence

from lib.giftcards.order_files.shops import Item, Skip, Values, is_more_than_nothing, split_name

_GONE = ("canceled", "cancelled", "voided", "refunded")


class Square:
    """Written after the columns of 2024 and 2025. It has only orders that were paid."""

    name = "square"
    title = "Square Online's export of orders"
    required: tuple[str, ...] = ("Order", "Currency", "Recipient Email", "Item Quantity", "Item Name", "Item Price")
    optional: tuple[str, ...] = ("Recipient Name", "Order Refunded Amount", "Fulfillment Status")
    key = "Order"
    ids: tuple[str, ...] = ("Order",)
    email = "Recipient Email"
    currency = "Currency"

    def is_item(self, key: str) -> bool:
        """See `Layout`."""
        return False

    def check_status(self, order: Values) -> None:
        """See `Export`."""
        if order.get("Fulfillment Status", "").casefold() in _GONE:
            raise Skip("is cancelled or refunded")
        if is_more_than_nothing(order.get("Order Refunded Amount", "")):
            raise ValueError("the order is refunded at least in part: order the cards that remain one by one")

    def number(self, order: Values) -> str:
        """See `Export`."""
        return order["Order"]

    def items(self, rows: Sequence[Values]) -> Iterator[Item]:
        """See `Export`."""
        for row in rows:
            yield Item(row["Item Name"], row["Item Quantity"], row["Item Price"])

    def names(self, order: Values) -> tuple[str, str | None]:
        """See `Export`."""
        return split_name(order.get("Recipient Name", ""))
