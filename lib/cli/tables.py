"""Tables and sentences. Rich draws them on a terminal, if it is installed; the application never imports it.

Elsewhere (a pipe, a file) tables are aligned text with one line per row, for grep and awk.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

# Any INSERT can write these texts: replace characters that control a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_COLOURS = {
    "red": "red",
    "yellow": "yellow",
    "green": "green",
    "error": "red",
    "FAILED": "red",
    "open": "red",
    "running": "cyan",
    "half_open": "yellow",
    "INTERRUPTED": "yellow",
    "completed": "green",
    "SUCCESS": "green",
    "cancelled": "dim",
}


# Long enough for most words of a sentence.
_SHORT = 10


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Cells may be any value; None is rendered as empty."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


Part = Table | str


def print_parts(parts: Iterable[Part]) -> None:
    """Print tables and sentences to standard output."""
    draw = _rich_renderer() if sys.stdout.isatty() else None
    for part in parts:
        if isinstance(part, str):
            click.echo(_printable(part))
        elif draw:
            draw(part)
        else:
            _print_plain(part)


def moment(time: str | None) -> str:
    """Format a time from the database in UTC, to the second."""
    if not time:
        return ""
    try:
        return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError):  # infinity, and years that Python does not have
        return time


def duration(milliseconds: float | None) -> str:
    """Format a duration like 12 ms, 3.4 s, 5 min, 7 h, 3 d."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun, like 1,234 dead letters."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _printable(value: Any) -> str:
    return "" if value is None else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _cells(row: Sequence[Any]) -> list[str]:
    return [" ".join(_printable(cell).split()) for cell in row]


def _print_plain(table: Table) -> None:
    rows = [list(table.columns), *map(_cells, table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    click.echo(_printable(table.title))
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_renderer() -> Any:
    """Return the function that draws a table, or None if rich is not installed."""
    try:
        from rich import table as tables
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return None
    console = Console()

    def draw(table: Table) -> None:
        console.print(Text(_printable(table.title), style="bold"))  # not the table's: it would wrap at its width
        rows = [list(table.columns), *map(_cells, table.rows)]
        used = [any(column[1:]) or len(rows) == 1 for column in zip(*rows, strict=True)]
        rows = [[cell for cell, use in zip(row, used, strict=True) if use] for row in rows]
        gap, widths = fitting_widths(rows, console.width)
        drawn = tables.Table(
            header_style="dim", box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=any(rows[0])
        )
        for column, width in zip(rows[0], widths, strict=True):
            drawn.add_column(Text(column), overflow="fold", width=width)
        for row in rows[1:]:
            # Text, not markup: a masked address is [email], which markup would remove.
            drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
        console.print(drawn)

    return draw


def fitting_widths(rows: Sequence[Sequence[str]], room: int) -> tuple[int, list[int]]:
    """Return the gap between columns and their widths, so that each row fits into `room`.

    Sentences wrap first, at their spaces; names and numbers stay whole as long as they can, since commands need them.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    gap = 2 if sum(words) + 2 * (len(words) - 1) <= room else 1
    room -= gap * (len(widths) - 1)
    short = [min(word, _SHORT) if word < width else word for word, width in zip(words, widths, strict=True)]
    cells = [
        min(least, max([len(cell) for cell in column[1:]] or [1])) for least, column in zip(short, columns, strict=True)
    ]
    # Down to the longest word; then sentences to a short word, names of columns to their cells, and at last anything.
    for least in (words, short, cells, [1] * len(widths)):
        while sum(widths) > room and (wide := [i for i, width in enumerate(widths) if width > least[i]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
    return gap, widths
