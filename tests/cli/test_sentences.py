"""Commands in sentences: each ends its sentence, or stands before a semicolon, so that it can stand on its own line."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lib.cli import jobs
from lib.cli.layout import COMMAND

LIB = Path(__file__).parent.parent.parent / "lib"


def sentences() -> Iterator[tuple[str, str]]:
    """What the program can print that names a command; ARG stands for what is filled in."""
    for path in sorted(LIB.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "ARG" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | within:
                text = node.value
            else:
                continue
            if "flask jobs" in text and "\n" not in text:
                yield f"{path.relative_to(LIB)}:{node.lineno}", text


SENTENCES = dict(sentences())


def test_sentences_are_found() -> None:
    assert len(SENTENCES) > 30


@pytest.mark.parametrize("place", SENTENCES)
def test_nothing_follows_a_command(place: str) -> None:
    for found in COMMAND.findall(SENTENCES[place]):
        group: click.Command = jobs
        words = shlex.split(found)[2:]
        while words and isinstance(group, click.Group) and (inner := group.get_command(click.Context(group), words[0])):
            group, words = inner, words[1:]
        prose = [
            word for word in re.sub(r"--[a-z-]+ \S+", "", " ".join(words)).split() if re.fullmatch("[a-z]+[.,]?", word)
        ]
        assert prose == [], SENTENCES[place]
