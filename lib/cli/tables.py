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
        drawn = tables.Table(
            title=Text(_printable(table.title)),
            title_justify="left",
            title_style="bold",
            header_style="dim",
            box=None,
            pad_edge=False,
        )
        for column in table.columns:
            drawn.add_column(Text(column), overflow="fold")
        for row in table.rows:
            # Text, not markup: a masked address is [email], which markup would remove.
            drawn.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in _cells(row)))
        console.print(drawn)

    return draw
