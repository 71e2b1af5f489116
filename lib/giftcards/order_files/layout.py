"""What a layout of columns offers: this project's own, and the exports of shops."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lib.giftcards.order_files.table import Record
from lib.giftcards.orders import Order

if TYPE_CHECKING:
    from lib.giftcards.order_files.file import OrderFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One order of a file, or why there is none: a `problem`, or a reason why the file has it `skipped`.

    `records`: the rows of the file that it was read from. A row with a problem has no order and no ids.
    """

    records: tuple[Record, ...]
    order: Order | None = None
    correlation_id: str | None = None
    tenant_id: str | None = None
    problem: str | None = None
    skipped: str | None = None

    @property
    def line(self) -> int:
        """The first line of the row in the file, from 1."""
        return self.records[0].line


class Layout(Protocol):
    """Columns, and how rows become orders.

    `misspelled`: optional columns whose names are looked for among those that are unknown. `has_many_columns`: most of
    them are of no interest, and are not listed.
    """

    title: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    misspelled: tuple[str, ...]
    has_many_columns: bool
    is_paid: bool

    def is_item(self, key: str) -> bool:
        """Return whether a column, by its name as it is compared, is one of a numbered series."""

    def rows(self, file: "OrderFile") -> Iterator[Row]:
        """Yield the orders of a file."""
