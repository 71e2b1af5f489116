"""The language of code and docs: no verbs of speech for code, no private words where the field has one."""

import re
from pathlib import Path

import pytest

from dev import ROOT

# What replaces them is in CONTRIBUTING.md ("Language") and in docs/glossary.md.
REFUSED = (
    "told tell tells telling said say says saying heard hears shall whoever nobody wish wishes "
    "mend mends mending chore chores inlet inlets door doors unwanted"
).split()
FILES = [
    path
    for pattern in (
        *(f"{room}/**/*.{kind}" for room in ("lib", "api", "dev", "demo") for kind in ("py", "html", "txt")),
        *("supabase/schemas/*.sql", "sql/*.sql", "docs/**/*.md", "*.md", "Makefile", ".ci/run"),
    )
    for path in sorted(ROOT.glob(pattern))
    # Renamed things are named there by their former names.
    if path.name != "CHANGELOG.md"
]
# Parts of names count: _said and told_at are words, too.
WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(REFUSED)})(?![A-Za-z])", re.IGNORECASE)
PHRASE = re.compile(r"\b(?:goes by|go by|as ever|by comma)\b|\bRight:")
# Names of others that hold such a word, and the names of settings from before, which the doctor still recognises.
NAMES = re.compile(r"GIFTCARD_QUEUE_INLETS")


def refused(text: str) -> list[str]:
    """The lines that hold a refused word, each with the word."""
    return [
        f"{number}: {match[0]}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern in (WORD, PHRASE)
        for match in pattern.finditer(NAMES.sub("", line))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_language_is_plain(path: Path) -> None:
    assert refused(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "# It is told here.",
        "def _said() -> str: ...",
        "notified = told_at",
        "this Door is shut",
        "goes by the clock",
        "Right: x",
    ],
)
def test_a_refused_word_is_found(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize("text", ["an essay", "the doorway", "Bright: x", "GIFTCARD_QUEUE_INLETS is renamed"])
def test_other_words_pass(text: str) -> None:
    assert refused(text) == []
