"""How a frame of `flask jobs top` is drawn: lines of styled texts in the width of a terminal."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import click

from lib.cli.layout import cell_width
from lib.cli.tables import printable

# A text with its style, such as "red" or "dim"; a line is several of them.
Span = tuple[str, str]
Line = tuple[Span, ...]

_ASCII = str.maketrans({"…": "...", "→": "->", "·": ".", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"'})
_FLAGS = ("bold", "dim")


@dataclass(frozen=True, slots=True)
class View:
    """What a frame is drawn for. `height`: 0, as many lines as there are. `sort`: the column of stages.

    `elapsed`: the seconds since the overview arrived, so that countdowns go on between two answers.
    """

    width: int
    height: int = 0
    sort: str = "flow"
    ascii_only: bool = False
    elapsed: float = 0

    def now(self, overview: dict[str, Any]) -> datetime:
        """Return the database's time now."""
        return datetime.fromisoformat(overview["now"]) + timedelta(seconds=self.elapsed)

    def clock(self, time: datetime, now: datetime) -> str:
        """Return a time in the terminal's zone: the day only if it is another one."""
        local = time.astimezone()
        return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"

    def plain(self, text: Any) -> str:
        """Return one line of a text that the terminal can show."""
        line = " ".join(printable(text).split())
        return line.translate(_ASCII).encode("ascii", "replace").decode() if self.ascii_only else line


def cut(text: str, room: int, *, end: str = "…") -> str:
    """Return a text of at most `room` columns; `end` stands for what is left out."""
    if cell_width(text) <= room:
        return text
    end = end if room > cell_width(end) else ""
    kept, width = "", 0
    for char in text:
        width += cell_width(char)
        if width > room - cell_width(end):
            break
        kept += char
    return kept + end


def cell(text: str, room: int, *, right: bool = False, end: str = "…") -> str:
    """Return a text of exactly `room` columns."""
    text = cut(text, room, end=end)
    padding = " " * (room - cell_width(text))
    return padding + text if right else text + padding


def fitted(line: Line, width: int) -> Line:
    """Return a line of at most `width` columns."""
    spans: list[Span] = []
    for text, style in line:
        text = cut(text, width, end="")
        width -= cell_width(text)
        spans.append((text, style))
    return tuple(spans)


def ansi(line: Line, *, colours: bool) -> str:
    """Return a line with its colours, for terminals that have them."""
    if not colours:
        return "".join(text for text, _ in line).rstrip()
    return "".join(_styled(text, style) for text, style in line)


def has_colours() -> bool:
    """Return whether the terminal has colours, and its user wants them."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _styled(text: str, style: str) -> str:
    words = style.split()
    colour = next((word for word in words if word not in _FLAGS), None)
    return click.style(text, fg=colour, **{flag: True for flag in _FLAGS if flag in words}) if words and text else text


def without_styles(lines: Iterable[str]) -> list[str]:
    """Return lines without the colours of `ansi`."""
    return [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines]
