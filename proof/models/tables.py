"""Read the names in the models, and the tables of README.md that tie them to SQL and Python."""

import re
from dataclasses import dataclass
from pathlib import Path

from proof.models.checker import HERE

README = HERE / "README.md"


@dataclass(frozen=True, slots=True)
class Transition:
    """A row of the first table: the names of what does a transition. `fenced`: those that have the fence."""

    model: str
    name: str
    sql: tuple[str, ...]
    fenced: tuple[str, ...]
    python: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A row of the second table: what is changed, and how many transitions lead to the broken promise."""

    model: str
    name: str
    what: str
    steps: int


def inlines(model: Path) -> set[str]:
    """Return the names of a model's transitions."""
    return set(re.findall(r"^inline (\w+)\(", model.read_text(encoding="utf-8"), re.MULTILINE))


def mutations(model: Path) -> list[str]:
    """Return the names of a model's mutations, in the order of their first use."""
    return list(dict.fromkeys(re.findall(r"^#ifn?def (\w+)", model.read_text(encoding="utf-8"), re.MULTILINE)))


def transitions() -> list[Transition]:
    """Return the table of transitions. A name with * behind it has the lease's fence."""
    rows = []
    for model, name, sql, python in _rows("## Transitions", 4):
        rows.append(
            Transition(
                model=model,
                name=name,
                sql=tuple(re.findall(r"`(\w+)`", sql)),
                fenced=tuple(re.findall(r"`(\w+)`\*", sql)),
                python=tuple(re.findall(r"`([\w.]+)`", python)),
            )
        )
    return rows


def known_mutations() -> list[Mutation]:
    """Return the table of mutations."""
    return [Mutation(model, name, what, int(steps)) for model, name, what, steps in _rows("## Mutations", 4)]


def _rows(heading: str, columns: int) -> list[list[str]]:
    """Return the rows of the table under a heading, with code marks left out of the first two columns."""
    part = README.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n## ")[0]
    rows = []
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == columns and not set(line) <= set("|- ") and "`" in cells[1]:
            rows.append([cells[0].strip("`"), cells[1].strip("`"), *cells[2:]])
    return rows
