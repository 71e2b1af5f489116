"""Orders of shops: the rows of an order, its items, and a gift card for each unit of an item that is one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from pydantic import ValidationError

from lib.giftcards.order_files.amounts import minor_units
from lib.giftcards.order_files.cells import damage_of_address, damage_of_id, damage_of_text, trimmed
from lib.giftcards.order_files.file import OrderFile
from lib.giftcards.order_files.layout import Row
from lib.giftcards.order_files.table import Record
from lib.giftcards.orders import Order
from lib.validation import MAX_ID_LENGTH, UNSAFE, field_errors

Values = dict[str, str]

_GIFT_CARD = re.compile(r"gift[\s-]?(card|certificate|voucher)|gutschein|carte[\s-]cadeau", re.IGNORECASE)
_SIGN = re.compile(r"[$€£¥]")
_MOST_UNITS = 100


class Skip(Exception):
    """An order of which no gift card is to be made, such as a cancelled one. The message ends a sentence."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an order. `price`: of one unit, as in the file."""

    name: str
    quantity: str
    price: str
    is_discounted: bool = False


class Export(Protocol):
    """A shop's export, as far as shops differ. Raise ValueError for an order that is not clear."""

    name: str
    title: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    key: str
    ids: tuple[str, ...]
    email: str
    currency: str

    def is_item(self, key: str) -> bool:
        """See `Layout`."""

    def check_status(self, order: Values) -> None:
        """Raise Skip unless the order is paid and stands."""

    def number(self, order: Values) -> str:
        """Return the order's number, for its correlation ids."""

    def items(self, rows: Sequence[Values]) -> Iterator[Item]:
        """Yield the items of an order."""

    def names(self, order: Values) -> tuple[str, str | None]:
        """Return given name and family name of the recipient."""


class ShopLayout:
    """The layout of a shop's export. `items`: only items with this text in their names; None: gift cards."""

    misspelled: tuple[str, ...] = ()
    has_many_columns = True
    is_paid = True

    def __init__(self, export: Export, *, items: str | None = None) -> None:
        self._export = export
        self._items = re.compile(re.escape(items), re.IGNORECASE) if items else _GIFT_CARD
        self.title = export.title
        self.required, self.optional = export.required, export.optional

    def is_item(self, key: str) -> bool:
        """See `Layout`."""
        return self._export.is_item(key)

    def rows(self, file: OrderFile) -> Iterator[Row]:
        """Yield the gift cards of each order. An order with a problem is rejected as a whole."""
        for records in self._orders(file):
            try:
                yield from self._cards(file, records)
            except Skip as skip:
                yield Row(records=records, skipped=str(skip))
            except ValidationError as error:
                problems = (f"{field.rpartition('.')[2]} {message}" for field, message in field_errors(error))
                yield Row(records=records, problem="; ".join(problems))
            except ValueError as error:
                yield Row(records=records, problem=str(error))

    def _orders(self, file: OrderFile) -> Iterator[tuple[Record, ...]]:
        """Yield the rows of one order after the other: those with the same key that stand together."""
        group: list[Record] = []
        key = None
        for record in file.records():
            if file.is_header(record):
                continue
            this = None if record.fault else trimmed(file.values(record)[self._export.key]) or None
            if group and (this is None or this != key):
                yield tuple(group)
                group = []
            group.append(record)
            key = this
        if group:
            yield tuple(group)

    def _cards(self, file: OrderFile, records: tuple[Record, ...]) -> Iterator[Row]:
        fault = next((record.fault for record in records if record.fault), None)
        if fault:
            raise ValueError(fault)
        rows = [file.values(record) for record in records]
        order = self._merged(rows)
        self._export.check_status(order)
        wanted = [item for item in self._export.items(rows) if self._items.search(item.name)]
        if not wanted:
            raise Skip("has no gift card")
        self._check_damage(order)
        number = self._export.number(order)
        prices = list(chain.from_iterable(self._prices(file, item, order) for item in wanted))
        cards = [self._order(order, price) for price in prices]
        for at, card in enumerate(cards, start=1):
            yield Row(records=records, order=card, correlation_id=f"{self._export.name}:{number}/{at}")

    def _merged(self, rows: Sequence[Values]) -> Values:
        """Return the order's values: of the first row, or the only one that has them."""
        if not trimmed(rows[0][self._export.key]):
            raise ValueError(f"{self._export.key} is empty: the rows of an order have to stand together, as exported")
        merged = {}
        for name in rows[0]:
            merged[name] = next((cell for row in rows if (cell := trimmed(row[name]))), "")
        for name in (self._export.email, self._export.currency):
            if len({trimmed(row[name]) for row in rows} - {""}) > 1:
                raise ValueError(f"{name} differs between the rows of one order")
            if not merged[name]:
                raise ValueError(f"{name} is empty: the rows of an order have to stand together, as exported")
        return merged

    def _check_damage(self, order: Values) -> None:
        for name in self._export.ids:
            if UNSAFE.search(order.get(name, "")) or len(order.get(name, "")) > MAX_ID_LENGTH - 50:
                raise ValueError(f"{name} is too long, or has a control character")
        for name, cell in order.items():
            reason = damage_of_id(cell) if name in self._export.ids else None
            if name in (*self._export.ids, *self._export.required, *self._export.optional):
                reason = reason or (damage_of_address if name == self._export.email else damage_of_text)(cell)
            if reason:
                raise ValueError(f"{name} {reason}")

    def _prices(self, file: OrderFile, item: Item, order: Values) -> list[int]:
        """Return the value of each unit's card, in minor units."""
        if item.is_discounted:
            raise ValueError("a gift card has a discount: whether it is worth its price or what was paid is not clear")
        quantity = trimmed(item.quantity).removesuffix(".0")
        if not (quantity.isascii() and quantity.isdigit() and 1 <= len(quantity) <= 4):
            raise ValueError("the quantity of a gift card is not a whole number")
        if not 1 <= int(quantity) <= _MOST_UNITS:
            raise ValueError(f"the quantity of a gift card is not from 1 to {_MOST_UNITS}")
        try:
            price = minor_units(
                _SIGN.sub("", item.price, count=1), order[self._export.currency], decimal_comma=file.has_decimal_commas
            )
        except ValueError as error:
            raise ValueError(f"the price of a gift card {error}") from None
        return [price] * int(quantity)

    def _order(self, order: Values, price: int) -> Order:
        given_name, family_name = self._export.names(order)
        return Order.model_validate(
            {
                "customer": {
                    "given_name": given_name,
                    "family_name": family_name,
                    "email": order[self._export.email],
                },
                "amount": {"amount": price, "currency": order[self._export.currency]},
            }
        )


def split_name(name: str) -> tuple[str, str | None]:
    """Split a name of two words. Which word of a longer one begins the family name is not known."""
    words = name.split()
    return (words[0], words[1]) if len(words) == 2 else (" ".join(words), None)


def is_more_than_nothing(cell: str) -> bool:
    """Return whether a sum, such as that of refunds, is not empty or 0."""
    return bool(re.search("[1-9]", cell)) or bool(cell and not re.search("0", cell))
