"""A script in the hands of an operator: filled in, and run in both ways."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.sql.scripts.running import SCRIPTS, Row, Script, by_editor, by_psql
from tests.support.factory import World


@pytest.fixture
def world(connection: psycopg.Connection[Any]) -> World:
    """On the database's own clock, for the scripts know no other."""
    return World(connection, now=None)


@pytest.fixture(params=[by_psql, by_editor], ids=["psql", "editor"])
def script(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Script:
    """Runs a script with values filled in at its top: `script("pause", p_stage="'email'")`."""

    def run(name: str, **values: str) -> list[Row]:
        text = (SCRIPTS / f"{name}.sql").read_text()
        for argument, value in values.items():
            value_at_top = re.compile(rf"(?m)^(\s*{argument}\s*=> )('[^']*'|[a-z0-9]+)")
            assert len(value_at_top.findall(text)) == 1, f"{name}.sql does not name {argument} once"
            text = value_at_top.sub(rf"\g<1>{value}", text)
        answer: list[Row] = request.param(text, database_url, tmp_path)
        return answer

    return run
