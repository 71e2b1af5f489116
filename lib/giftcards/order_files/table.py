"""Text → rows of cells. A row that cannot be parsed costs itself only."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lib.giftcards.order_files.text import FileError

DELIMITERS = (",", ";", "\t", "|")
# A quotation mark that is never closed would consume the rest of the file: a row with more lines is an error.
_MAX_LINES_OF_ROW = 200
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# The line that names the delimiter for Excel.
_SEPARATOR = re.compile(r'\s*"?sep=(.?)"?[ \t]*(?:\r\n|\r|\n|$)', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the file, named by its first line. `fault`: it could not be parsed, and the cells are a guess."""

    line: int
    cells: tuple[str, ...]
    fault: str | None = None

    @property
    def is_blank(self) -> bool:
        """Whether no cell has content."""
        return not any(cell.strip() for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Table:
    """The header of a file, and how to read its rows."""

    content: str
    delimiter: str
    header: Record

    def records(self) -> Iterator[Record]:
        """Yield the rows after the header that are not blank; each call begins anew."""
        return (record for record in _records(self.content, self.delimiter) if record.line > self.header.line)


def read_table(content: str, count_known: Callable[[Iterable[str]], int]) -> Table:
    """Find delimiter and header. `count_known` counts the cells that are names of columns.

    Raises:
        FileError: there is no row, or `sep=` names what is no delimiter.
    """
    separator = _SEPARATOR.match(content)
    if separator and separator[1] not in DELIMITERS:
        raise FileError("the first line names a separator that is not supported: use a comma, semicolon, tab or |")
    first = len(_LINE.findall(separator[0])) + 1 if separator else 1
    tables = []
    for delimiter in [separator[1]] if separator else DELIMITERS:
        header = next((row for row in _records(content, delimiter) if row.line >= first), None)
        if header:
            tables.append(Table(content, delimiter, header))
    if not tables:
        raise FileError("the file has no row: the first line has to name the columns")
    return max(tables, key=lambda table: count_known(table.header.cells))


class _Lines:
    """The lines of a text, without a copy of it. Reading can go back to a position."""

    def __init__(self, content: str) -> None:
        self._content = content
        self.position = 0
        self.line = 1
        self._left = 0

    def begin_row(self) -> None:
        self._left = _MAX_LINES_OF_ROW

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        matched = _LINE.match(self._content, self.position) if self._left else None
        if matched is None:
            raise StopIteration
        self._left -= 1
        self.position = matched.end()
        self.line += 1
        return matched[0]


def _records(content: str, delimiter: str) -> Iterator[Record]:
    lines = _Lines(content)
    while lines.position < len(content):
        record = _record(lines, delimiter)
        if not record.is_blank:
            yield record


def _record(lines: _Lines, delimiter: str) -> Record:
    at, position = lines.line, lines.position
    lines.begin_row()
    try:
        return Record(at, tuple(next(csv.reader(lines, strict=True, delimiter=delimiter))))
    except csv.Error:
        # Skip only the row's first line: what a stray quotation mark consumed is read again.
        lines.position, lines.line = position, at
        line = next(lines)
        cells = line.rstrip("\r\n").split(delimiter)
        return Record(at, tuple(cells), fault="the row has an unclosed quotation mark or an endless cell")
