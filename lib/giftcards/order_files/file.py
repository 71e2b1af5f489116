"""A file of orders: its text, its columns, its rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from lib.giftcards.order_files.cells import unescaped
from lib.giftcards.order_files.header import PROBLEM, Header, count_known, read_header
from lib.giftcards.order_files.layout import Layout, Row
from lib.giftcards.order_files.table import Record, Table, read_table
from lib.giftcards.order_files.text import FileError, read_text

# A row with as many names of columns is another header.
_NAMES_OF_HEADER = 3


@dataclass(frozen=True, slots=True)
class OrderFile:
    """A file whose header is valid. Each call of `rows` reads it from its begin. `notes`: for the operator."""

    table: Table
    header: Header
    layout: Layout
    notes: tuple[str, ...]

    @property
    def has_decimal_commas(self) -> bool:
        """Whether 25,00 is an amount: in files with semicolons, as spreadsheets of such countries write them."""
        return self.table.delimiter == ";"

    def rows(self) -> Iterator[Row]:
        """Yield the file's orders and problems, in order.

        Raises:
            FileError: another header is among the rows: what follows it would be misread.
        """
        return self.layout.rows(self)

    def records(self) -> Iterator[Record]:
        """Yield the rows without extra empty cells, and without the apostrophes that a file of rejected rows has."""
        written_here = PROBLEM in self.header.index
        width = len(self.header.names)
        for record in self.table.records():
            cells = record.cells
            while len(cells) > width and not cells[-1].strip():
                cells = cells[:-1]
            if written_here:
                cells = tuple(map(unescaped, cells))
            fault = record.fault or _fault(cells, width, self.table.delimiter)
            yield replace(record, cells=cells, fault=fault)

    def is_header(self, record: Record) -> bool:
        """Return whether a row repeats the header. Raise FileError if it is another header."""
        # An order has a mail address, and a header has none.
        if any("@" in cell for cell in record.cells):
            return False
        if self.header.repeated_by(record.cells):
            return True
        if count_known(record.cells, self.layout) >= _NAMES_OF_HEADER:
            raise FileError(f"line {record.line} is another header: import the rows after it as a file of their own")
        return False

    def values(self, record: Record) -> dict[str, str]:
        """Return the cells of known columns by their names."""
        return {name: record.cells[at] for name, at in self.header.index.items() if at < len(record.cells)}


def open_orders(data: bytes, layout: Layout, *, encoding: str | None = None) -> OrderFile:
    """Open a file of orders.

    Raises:
        FileError: it is no file of such orders; the message has the reason and what to do.
    """
    text = read_text(data, encoding)
    table = read_table(text.content, partial(count_known, layout=layout))
    header = read_header(table.header.cells, layout)
    return OrderFile(table, header, layout, (*text.notes, *header.notes))


def _fault(cells: tuple[str, ...], width: int, delimiter: str) -> str | None:
    if len(cells) == width:
        return None
    if len(cells) == 1 and cells[0].count(delimiter) >= width - 1:
        return "the row is in quotation marks as a whole, so it is one cell"
    return f"the row has {len(cells)} cells, but the header has {width}"
