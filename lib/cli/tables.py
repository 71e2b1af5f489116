"""Tables and sentences, on a terminal in its width: a table that does not fit is printed as a list of records.

Elsewhere (a pipe, a file) tables are aligned text with one line per row, for grep and awk.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import click

from lib.cli.group import with_url
from lib.cli.layout import cell_width, column_widths, columns_of, wrap

# Any INSERT can write these texts: replace characters that control a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_COLOURS = {
    "red": "red",
    "yellow": "yellow",
    "green": "green",
    "error": "red",
    "failed": "red",
    "open": "red",
    "running": "cyan",
    "half_open": "yellow",
    "interrupted": "yellow",
    "completed": "green",
    "cancelled": "bright_black",
}


_GAP = 2
# The width of the lines of a cell in aligned text: with a time beside it, a line has at most 80 characters.
_LINE = 62


@dataclass(frozen=True, slots=True)
class Table:
    """A table, the important columns first. Without names of columns, its rows are names and values.

    Cells may be any value; None is rendered as empty, a tuple as lines. The name of a column of tuples lists theirs.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


Part = Table | str


def print_parts(parts: Iterable[Part]) -> None:
    """Print tables and sentences to standard output."""
    room = columns_of(sys.stdout) if sys.stdout.isatty() else None
    is_apart = True
    for part in parts:
        if room is None:
            _print_plain(part) if isinstance(part, Table) else click.echo(printable(with_url(part)))
        elif isinstance(part, Table):
            if not is_apart:
                click.echo()
            is_apart = _draw(part, room)
        else:
            click.echo("\n".join(wrap(printable(with_url(part)), room)))
            is_apart = False


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


def run_result(result: str) -> str:
    """Return the result of a run as people read it: completed, failed, interrupted, snoozed or released."""
    return "completed" if result == "SUCCESS" else result.lower()


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun, like 1,234 dead letters."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def printable(value: Any) -> str:
    """Return a value as text that controls no terminal, None as nothing."""
    return "" if value is None else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _lines(cell: Any) -> list[str]:
    """Return the lines of a cell."""
    return [" ".join(printable(line).split()) for line in (cell if isinstance(cell, tuple) else (cell,))]


def _print_plain(table: Table) -> None:
    rows: list[Sequence[str]] = [table.columns]
    for row in table.rows:
        cells = [
            [part for line in _lines(c) for part in wrap(line, _LINE)] if isinstance(c, tuple) else _lines(c)
            for c in row
        ]
        rows += zip_longest(*cells, fillvalue="")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    click.echo(printable(table.title))
    for line in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


# On a terminal


def _draw(table: Table, room: int) -> bool:
    """Print a table with the columns that are used, and return whether an empty line follows it.

    If it does not fit, columns with one value in all rows become a line above it; if it still does not, its rows are
    records.
    """
    for line in wrap(printable(table.title), room):
        click.echo(_styled(line, bold=True))
    cells = [[_lines(cell) for cell in row] for row in table.rows]
    used = [any(any(row[i]) for row in cells) or not cells for i in range(len(table.columns))]
    columns = [name for name, use in zip(table.columns, used, strict=True) if use]
    rows = [[cell for cell, use in zip(row, used, strict=True) if use] for row in cells]
    if not columns:
        return False
    widths = column_widths([[[name] for name in columns], *rows], room, gap=_GAP)
    if widths is None and any(columns):
        columns, rows, widths = _without_sames(columns, rows, room)
    if widths is None:
        _draw_records(columns, rows, room)
        return any(columns)
    if any(columns):
        _draw_row([[name] for name in columns], widths, style={"dim": True})
    for row in rows:
        _draw_row(row, widths)
    return False


def _without_sames(
    columns: list[str], rows: list[list[list[str]]], room: int
) -> tuple[list[str], list[list[list[str]]], list[int] | None]:
    """Print a line of the last columns with one value in all rows, if the others fit without them.

    Return the columns and rows that are left, with their widths; without widths, nothing fits and nothing was printed.
    """
    left, cut = [*columns], rows
    parts: list[str] = []
    for at in reversed(range(1, len(columns))):
        if not _is_same(rows, at):
            continue
        parts.insert(0, f"{left.pop(at)} {rows[0][at][0]}")
        cut = [[*row[:at], *row[at + 1 :]] for row in cut]
        widths = column_widths([[[name] for name in left], *cut], room, gap=_GAP)
        if widths is not None:
            click.echo("\n".join(wrap(f"in all rows: {'; '.join(parts)}", room)))
            return left, cut, widths
    return columns, rows, None


def _is_same(rows: Sequence[Sequence[Sequence[str]]], at: int) -> bool:
    """Whether a column has the same word or number in all rows: no sentences, and no commands to copy."""
    first = rows[0][at] if len(rows) > 1 else []
    return len(first) == 1 and " " not in first[0] and all(row[at] == first for row in rows)


def _draw_row(row: Sequence[Sequence[str]], widths: Sequence[int], *, style: dict[str, Any] | None = None) -> None:
    wrapped = [[part for line in cell for part in wrap(line, width)] for cell, width in zip(row, widths, strict=True)]
    for *line, last in zip_longest(*wrapped, fillvalue=""):
        fits = cell_width(last) <= widths[-1]
        texts = [*line, last if fits else ""]
        padded = [
            _styled(text, **style or {}) + " " * (width - cell_width(text))
            for text, width in zip(texts, widths, strict=True)
        ]
        if any(texts) or fits:
            click.echo((" " * _GAP).join(padded).rstrip())
        if not fits:  # a command
            click.echo(f"  {last.strip()}")


def _draw_records(columns: Sequence[str], rows: Sequence[Sequence[Sequence[str]]], room: int) -> None:
    """Print each row as lines of names and values, one record after the other with an empty line between them."""
    for number, row in enumerate(rows):
        if any(columns) and number:
            click.echo()
        for name, value in _pairs(columns, row):
            (first, *rest) = wrap(f"{name}: {value}" if name else value, room, indent=2)
            label = f"{name}: " if name and first.startswith(f"{name}: ") else ""
            click.echo(_styled(label, dim=True) + _styled(first.removeprefix(label)))
            for line in rest:
                click.echo(line)
    if any(columns):
        click.echo()


def _pairs(columns: Sequence[str], row: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    if not any(columns):
        yield row[0][0], " ".join(line for cell in row[1:] for line in cell)
        return
    for column, lines in zip(columns, row, strict=True):
        names = column.split(", ") if len(lines) > 1 else [column]
        yield from ((name, line) for name, line in zip_longest(names, lines, fillvalue="") if line)


def _styled(text: str, **style: Any) -> str:
    """Return a text in its colour, for terminals that have colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    colour = _COLOURS.get(text)
    return click.style(text, **(style or {"fg": colour})) if text and (style or colour) else text
