"""The layout of text in a terminal's width: sentences wrap at words; words and commands to copy are never broken."""

import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

# A command in a sentence ends with the sentence, or at a semicolon.
COMMAND = re.compile(r"(?:\bflask jobs|(?<=: )(?:make|psql|curl|vacuum|select)|^psql)\b[^;]*")
# In a narrower terminal, each record by itself is easier to read than a table of narrow columns.
_ROOMY = 100
# What a sentence needs to be legible in a column. A time has 20 characters.
_LEGIBLE = 20
_NO_WIDTH = ("Mn", "Me", "Cf")


def columns_of(stream: Any) -> int:
    """Return the width of the terminal of a stream: COLUMNS, its own, or 80."""
    if os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters and emoji take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(char) in _NO_WIDTH else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def wrap(text: str, room: int, *, indent: int = 0) -> list[str]:
    """Return the lines of a text. If it has to wrap, a command in it stands on a line of its own.

    `indent`: of each line but the first, included in `room`. Words and commands that are wider than `room` stay whole.
    """
    if cell_width(text) <= room:
        return [text]
    margin = " " * (len(text) - len(text.lstrip(" ")))
    rest = margin + " " * indent
    lines: list[str] = []
    end = 0
    for command in COMMAND.finditer(text):
        lines += _fill(text[end : command.start()], room - len(rest))
        lines.append(("" if indent or margin or not lines else "  ") + command[0].rstrip())
        end = command.end() + len(text[command.end() :]) - len(text[command.end() :].lstrip("; "))
    lines += _fill(text[end:], room - len(rest))
    return [(rest if number else margin) + line for number, line in enumerate(lines)]


def _fill(text: str, room: int) -> list[str]:
    """Return the words of a text in lines. textwrap would take each character for one column."""
    lines: list[str] = []
    width = 0
    for word in text.split():
        size = cell_width(word)
        if lines and width + 1 + size <= room:
            lines[-1] += f" {word}"
            width += 1 + size
        else:
            lines.append(word)
            width = size
    return lines


def column_widths(rows: Sequence[Sequence[Sequence[str]]], room: int, *, gap: int) -> list[int] | None:
    """Return the widths of the columns of a table in `room`, or None if it is not legible there or breaks a word.

    `rows`: of cells, each a list of lines. The widest columns wrap first, so that names and numbers stay in one line.
    """
    columns = [[line for cell in column for line in cell] for column in zip(*rows, strict=True)]
    widths = [max(map(cell_width, column), default=0) for column in columns]
    enough = _LEGIBLE if room < _ROOMY else 0
    least = [
        max(min(width, enough), *map(_unbreakable, column), 0)
        for column, width in zip(columns[:-1], widths, strict=False)
    ]
    # Commands of the last column that do not fit stand below it: see lib.cli.tables.
    words = [word for text in columns[-1] for word in COMMAND.sub(" ", text).split()]
    least.append(max(min(widths[-1], enough), *map(cell_width, words), 0))
    room -= gap * (len(widths) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widths[max((i for i, width in enumerate(widths) if width > least[i]), key=widths.__getitem__)] -= 1
    return widths


def _unbreakable(text: str) -> int:
    """Return the width of the widest word or command of a text."""
    parts = [found[0].rstrip() for found in COMMAND.finditer(text)] + COMMAND.sub(" ", text).split()
    return max(map(cell_width, parts), default=0)
