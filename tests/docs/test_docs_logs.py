"""What the runbook types to find jobs that need many attempts finds them, in the log and in the history."""

import io
import json
import logging
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lib.errors import TransientError
from lib.telemetry import events
from tests.support.pages import TEXTS, fenced
from tests.support.world import World, a_world

PART = TEXTS["runbook"].split("## Some jobs need many attempts")[1].split("\n## ")[0]


def shaky(payload: Any, context: Any) -> Any:
    raise TransientError("the vendor is shaky")


@pytest.fixture
def written(database_url: str) -> Iterator[Callable[..., str]]:
    """What the log holds after a job has failed four times, and another once."""
    logger = logging.getLogger("giftcards")
    before = logger.handlers, logger.level, logger.propagate

    def write(*, readable: bool) -> str:
        with mock.patch("sys.stderr", io.StringIO()) as stream:
            events.configure(readable=readable)
        with a_world(database_url, handlers={"work": shaky}, GIFTCARD_CIRCUIT_THRESHOLD=0) as world:
            often(world)
        return stream.getvalue()

    yield write
    logger.handlers, logger.level, logger.propagate = before


def often(world: World) -> int:
    job_id = world.add("work")
    for _ in range(4):
        world.run()
        world.move(300)
    world.run_job("work")
    return job_id


def test_grep_of_the_runbook_finds_the_lines_of_a_terminal(written: Callable[..., str], tmp_path: Path) -> None:
    (command,) = re.findall(r"(?m)^    (grep .*)$", PART)
    (tmp_path / "log.txt").write_text(written(readable=True))
    ran = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert [re.findall(r"attempt (\d+)/5", line) for line in lines if "run_failed" in line] == [["3"], ["4"]]
    assert not any("attempt 1/" in line or "attempt 2/" in line for line in lines)


def test_jq_of_the_runbook_names_fields_that_there_are(written: Callable[..., str]) -> None:
    (chosen, fields) = re.findall(r"select\((.*)\) \| \{(.*)\}", PART)[0]
    assert chosen == '.event == "run_failed" and .attempt >= 3'
    lines = [json.loads(line) for line in written(readable=False).splitlines()]
    found = [line for line in lines if line["event"] == "run_failed" and line["attempt"] >= 3]
    assert [line["attempt"] for line in found] == [3, 4]
    assert all(set(fields.split(", ")) <= set(line) for line in found)
    assert '"attempt": 3' in PART
    assert '"attempt": 3,' in written(readable=False)


def test_statement_of_the_runbook_finds_them_in_the_history(database_url: str) -> None:
    (statement,) = [text for text in fenced("runbook", language="sql") if "max(attempt)" in text]
    with a_world(database_url, handlers={"work": shaky}, GIFTCARD_CIRCUIT_THRESHOLD=0) as world:
        job_id = often(world)
        (row,) = world.sql(statement)
    assert (row["job_id"], row["attempts"], row["runs"]) == (job_id, 4, 4)
    assert row["an_error"] == "TransientError: the vendor is shaky"
