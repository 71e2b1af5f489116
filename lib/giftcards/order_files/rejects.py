"""The file of the rejected rows: correct it and import it again.

It has the header and the rows of the original file, and two columns more at the left: `problem`, which the import
ignores, and a correlation id for rows without one. It opens in a spreadsheet without harm: a cell that the spreadsheet
would run as a formula, or would round, begins with an apostrophe, which the import removes from files with `problem`.
"""

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lib.giftcards.order_files.cells import escaped, unescaped
from lib.giftcards.order_files.file import OrderFile
from lib.giftcards.order_files.header import PROBLEM
from lib.giftcards.order_files.layout import Row

_CORRELATION_ID = "correlation_id"


class Rejects:
    """The rejected rows of one file. Rows of an order that stand together are written once."""

    def __init__(self, stream: TextIO, file: OrderFile) -> None:
        self._file = file
        self._writer = csv.writer(stream, delimiter=file.table.delimiter)
        self._left_out = file.header.index.get(PROBLEM)
        # Rows of shops have their ids from the shop.
        self._adds_ids = not file.layout.is_paid and _CORRELATION_ID not in file.header.index
        self._copies: Counter[str] = Counter()
        self._last_line = 0
        names = file.header.names if self._left_out is None else tuple(map(unescaped, file.header.names))
        first = [PROBLEM, _CORRELATION_ID] if self._adds_ids else [PROBLEM]
        self._writer.writerow(map(escaped, [*first, *self._kept(names)]))

    @property
    def is_empty(self) -> bool:
        """Whether no row was written."""
        return self._last_line == 0

    def write(self, row: Row, problem: str) -> None:
        """Write the rows of the file that could not be imported."""
        if row.line <= self._last_line:
            return
        self._last_line = row.line
        for record in row.records:
            cells = list(record.cells)
            first = [problem if record is row.records[0] else ""]
            if not self._file.layout.is_paid:
                first += self._with_id(cells)
            self._writer.writerow(map(escaped, [*first, *self._kept(cells)]))

    def _with_id(self, cells: list[str]) -> list[str]:
        """Give a row an id of its own, for its corrected content may be that of a row which was imported."""
        digest = hashlib.sha256("\0".join(self._kept(cells)).encode("utf-8", "surrogatepass")).hexdigest()[:24]
        self._copies[digest] += 1
        own = f"row-{digest}-{self._copies[digest]}"
        if self._adds_ids:
            return [own]
        at = self._file.header.index[_CORRELATION_ID]
        if len(cells) == len(self._file.header.names) and not cells[at].strip():
            cells[at] = own
        return []

    def _kept(self, cells: Sequence[str]) -> list[str]:
        return [cell for at, cell in enumerate(cells) if at != self._left_out]


@contextmanager
def open_rejects(path: Path, file: OrderFile) -> Iterator[Rejects]:
    """Create the file, for its owner only. It is removed again if no row was rejected, or the import failed.

    UTF-8 with a byte order mark, by which Excel recognizes it.

    Raises:
        OSError: it cannot be created; FileExistsError: it exists.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    is_kept = False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8-sig", errors="replace", newline="") as stream:
            rejects = Rejects(stream, file)
            yield rejects
            is_kept = not rejects.is_empty
    finally:
        if not is_kept:
            path.unlink(missing_ok=True)
