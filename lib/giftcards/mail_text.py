"""What people wrote, as mails show it: it cannot pass for a line of ours.

A message is shown as a quotation: each of its lines begins with `> ` in text, and HTML shows it in a box of its own. A
name ends at the first character that names do not have, so that it holds no numbers, links or further sentences.
"""

import re
import textwrap
import unicodedata
from itertools import groupby

MAX_NAME_LENGTH = 60
_WIDTH = 72

# Marks, overrides and isolates, which display text in another order than it is read in.
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_JOINERS = "\u200c\u200d"  # half of Persian and Indian names, and of emoji
_IN_NAMES = "'’‐-·"
# Periods of initials and abbreviations (J.R., Dr. Kate), not of addresses such as x.com.
_ADDRESS = re.compile(r"\.(?!\s|$)(?!\w(?:\W|$))")


def message_lines(text: str) -> list[str]:
    """Return the lines of a message, whatever separates them, without control characters; runs of spaces become one."""
    lines = (_clean(line) for line in text.splitlines())
    shown = (line for blank, group in groupby(lines, key=lambda line: not line) for line in ([""] if blank else group))
    message = "\n".join(shown).strip("\n")
    return message.split("\n") if message else []


def quoted(text: str) -> list[str]:
    """Return the lines of a message for a mail in text, wrapped so that mail programs do not wrap them."""
    wrapped = (textwrap.wrap(line, _WIDTH, break_on_hyphens=False) or [""] for line in message_lines(text))
    return [f"> {line}".rstrip() for lines in wrapped for line in lines]


def shown_name(name: str) -> str:
    """Return the part of a name that mails show: letters, spaces, emoji, hyphens, apostrophes and periods of initials,
    up to the first other character and 60 characters."""
    name = " ".join(_BIDI_CONTROLS.sub("", name).split())[:MAX_NAME_LENGTH]
    name = _ADDRESS.split(name)[0]
    end = next((at for at, char in enumerate(name) if not _is_of_name(char)), len(name))
    return name[:end].strip(f" {_IN_NAMES}")


def _clean(line: str) -> str:
    visible = "".join(" " if unicodedata.category(char) == "Cc" else char for char in _BIDI_CONTROLS.sub("", line))
    return " ".join(visible.split())


def _is_of_name(char: str) -> bool:
    category = unicodedata.category(char)
    return char in f" .{_IN_NAMES}{_JOINERS}" or category[0] in "LM" or category in ("So", "Sk")
