"""What operators see: tables and sentences. Rich draws them where there is a terminal and rich is installed.

Rich is imported by those who look, never by the application. Elsewhere (a pipe, a file) tables are plain aligned text,
each row whole on its line, so that grep and awk find it.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

# Rows may come from anybody's INSERT: what would steer a terminal is shown as a mark.
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
    """Cells may be anything; None is shown as nothing."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


Part = Table | str


def show(parts: Iterable[Part]) -> None:
    """Prints tables and sentences to standard output."""
    draw = _rich() if sys.stdout.isatty() else None
    for part in parts:
        if isinstance(part, str):
            click.echo(_safe(part))
        elif draw:
            draw(part)
        else:
            _print_plain(part)


def moment(time: str | None) -> str:
    """A time as the database gives it, to the second, in UTC."""
    if not time:
        return ""
    try:
        return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError):  # infinity, and years that Python has not
        return time


def duration(milliseconds: float | None) -> str:
    """Like 12 ms, 3.4 s, 5 min, 7 h, 3 d."""
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
    """Like 1,234 dead letters."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _safe(value: Any) -> str:
    return "" if value is None else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _cells(row: Sequence[Any]) -> list[str]:
    return [" ".join(_safe(cell).split()) for cell in row]


def _print_plain(table: Table) -> None:
    rows = [list(table.columns), *map(_cells, table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    click.echo(_safe(table.title))
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich() -> Any:
    """What draws a table, or None where rich is not installed."""
    try:
        from rich import table as tables
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return None
    console = Console()

    def draw(table: Table) -> None:
        made = tables.Table(
            title=Text(_safe(table.title)),
            title_justify="left",
            title_style="bold",
            header_style="dim",
            box=None,
            pad_edge=False,
        )
        for column in table.columns:
            made.add_column(Text(column), overflow="fold")
        for row in table.rows:
            # As text, not as markup: a covered address is shown as [email], which markup would swallow.
            made.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in _cells(row)))
        console.print(made)

    return draw
