"""README.md and docs/, as tests read them."""

import re
from collections.abc import Iterator

from dev import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in PAGES}
ALL_TEXT = "\n".join(TEXTS.values())

_FENCED = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")


def rows(page: str, *, columns: int) -> Iterator[list[str]]:
    """The rows of a page's tables that have so many columns, headers too."""
    for line in TEXTS[page].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == columns:
            yield cells


def named(text: str) -> list[str]:
    """What stands between backticks within a line."""
    return re.findall(r"`([^`\n]+)`", _FENCED.sub("", text))


def fenced(page: str, *, language: str) -> list[str]:
    """The page's blocks of a language."""
    return [text for known, text in _FENCED.findall(TEXTS[page]) if known == language]


def to_type() -> list[str]:
    """What the pages give to type: indented lines, joined where a line goes on, without what a comment says; and
    commands between backticks."""
    indented = "\n".join(re.findall(r"(?m)^    (.*)$", ALL_TEXT))
    lines = re.sub(r"\\\n\s*", " ", indented).splitlines()
    return [re.sub(r"\s+#.*", "", line) for line in lines] + named(ALL_TEXT)
