"""Which column is which. Names are compared without case, blanks, underscores, hyphens and full stops."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lib.giftcards.order_files.layout import Layout
from lib.giftcards.order_files.text import FileError
from lib.validation import harmless

# The column that the file of rejected rows has in addition.
PROBLEM = "problem"

_IGNORED_IN_NAMES = re.compile(r"[\s_\-.\u200b\ufeff]+")
# Of two names as difflib compares them: `mesage` for message, and not `message_id`.
_LIKENESS = 0.85
_FEWEST_NAMES = 2
_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file. `index`: the name of a known column → its place."""

    names: tuple[str, ...]
    index: dict[str, int]
    notes: tuple[str, ...]

    def repeated_by(self, cells: Sequence[str]) -> bool:
        """Return whether a row is this header again, as in files that were joined."""
        return [key_of(cell) for cell in cells] == [key_of(name) for name in self.names]


def key_of(name: str) -> str:
    """Return a column's name as it is compared: `Given Name` and given_name are one."""
    return _IGNORED_IN_NAMES.sub("", name).casefold()


def count_known(cells: Iterable[str], layout: Layout) -> int:
    """Return how many cells are names of columns."""
    known = {key_of(name) for name in (*layout.required, *layout.optional)}
    return sum(key_of(cell) in known for cell in cells)


def read_header(cells: Sequence[str], layout: Layout) -> Header:
    """Find the columns of a layout.

    Raises:
        FileError: required columns are missing, perhaps misspelled, or a column is there twice.
    """
    known = {key_of(name): name for name in (*layout.required, *layout.optional)}
    found: dict[str, int] = {}
    twice, extra, unnamed = [], [], 0
    for at, cell in enumerate(cells):
        key = key_of(cell)
        if not key:
            unnamed += 1
        elif layout.is_item(key):
            found[key] = at
        elif key in known or key == PROBLEM:
            name = known.get(key, PROBLEM)
            twice += [name] if name in found else []
            found[name] = at
        else:
            extra.append(harmless(cell.strip()))
    named = len(found.keys() - {PROBLEM})
    missing = [name for name in layout.required if name not in found]
    # What is no header may be a row of somebody's data: it is not repeated.
    if missing and named < _FEWEST_NAMES:
        raise FileError(_no_header(cells, layout, missing))
    _check(layout, found, twice=twice, extra=extra, missing=missing)
    return Header(tuple(cells), found, tuple(_notes(layout, extra, unnamed)))


def _check(layout: Layout, found: dict[str, int], *, twice: list[str], extra: list[str], missing: list[str]) -> None:
    if twice:
        raise FileError(f"the first line names {', '.join(twice)} more than once")
    keys = {key_of(name): name for name in (*layout.required, *layout.misspelled) if name not in found}
    for name in () if layout.has_many_columns else extra:
        close = difflib.get_close_matches(key_of(name), keys, n=1, cutoff=_LIKENESS)
        if close:
            raise FileError(
                f"the first line has the column {name!r}: did you mean {keys[close[0]]}? Correct its name, or remove it"
            )
    if missing:
        others = f"; it has {_listed(map(repr, extra))}" if extra and not layout.has_many_columns else ""
        raise FileError(
            f"the first line does not name {', '.join(missing)}: {layout.title} has the columns "
            f"{', '.join(layout.required)}{others}"
        )


def _no_header(cells: Sequence[str], layout: Layout, missing: list[str]) -> str:
    if len(cells) == 1 and count_known(re.split("[,;\t|]", cells[0]), layout) >= _FEWEST_NAMES:
        return (
            "each line is one cell: it is in quotation marks as a whole (then save the file anew as CSV), or the line "
            "sep= names another delimiter than the rows have (then correct it)"
        )
    columns = ", ".join(layout.required)
    optional = f", and may name {', '.join(layout.misspelled)}" if layout.misspelled else ""
    return (
        f"the first line is no header with the columns of {layout.title}: it has to name {columns}{optional}; "
        f"missing: {', '.join(missing)}"
    )


def _listed(names: Iterable[str]) -> str:
    """Return names with commas, up to a number of them."""
    listed = list(names)
    rest = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _notes(layout: Layout, extra: list[str], unnamed: int) -> list[str]:
    notes = []
    if extra and not layout.has_many_columns:
        notes.append(f"ignored columns: {_listed(extra)}")
    if unnamed:
        notes.append(f"ignored columns without a name: {unnamed}")
    return notes
