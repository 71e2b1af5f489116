"""The cases file: each row names tests that exist, and each story that is played again has its row."""

import ast
import re
from pathlib import Path

import pytest

from dev import ROOT

PAGE = (ROOT / "docs/proof.md").read_text(encoding="utf-8")
STORIES = sorted((ROOT / "tests/proof").glob("test_stories_*.py"))


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading, without the first two lines of each."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def functions_of(path: Path) -> set[str]:
    """The test functions of a file, as pytest names them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {f"{path.relative_to(ROOT)}::{name}" for name in names}


def missing(cell: str) -> list[str]:
    """The tests that a cell names and that do not exist."""
    return [name for name in named(cell) if name not in existing(name.partition("::")[0])]


def named(cell: str) -> list[str]:
    return re.findall(r"`(tests/[^`]+)`", cell)


def existing(file: str) -> set[str]:
    path = ROOT / file
    return functions_of(path) if path.is_file() else set()


def test_each_row_has_a_story_a_source_an_answer_and_its_tests() -> None:
    found = rows("What others lost")
    assert len(found) >= 40
    assert [row for row in found if len(row) != 4 or not all(row)] == []
    assert [row[1] for row in found if not re.fullmatch(r"\[[\w .-]+\]\(https://[\w./-]+\)", row[1])] == []
    assert len({row[1] for row in found}) == len(found)
    assert [row[0] for row in found if not named(row[3]) or missing(row[3])] == []


def test_each_story_that_is_played_again_has_its_row() -> None:
    listed = {name for row in rows("What others lost") for name in named(row[3])}
    played = {name for path in STORIES if path.name != Path(__file__).name for name in functions_of(path)}
    assert len(played) >= 20
    assert sorted(played - listed) == []


def test_each_promise_names_files_of_tests() -> None:
    found = rows("What is promised")
    assert len(found) >= 15
    files = {file for row in found for file in named(row[2])}
    assert all(named(row[2]) for row in found)
    assert sorted(file for file in files if not existing(file)) == []


@pytest.mark.parametrize("cell", ["`tests/proof/none.py::test_it`", "`tests/proof/test_stories_clock.py::test_none`"])
def test_a_test_that_does_not_exist_is_found(cell: str) -> None:
    assert missing(cell)
