"""docs/batches.md: its stage waits for two others, by the page's own request and statement."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import fenced
from tests.support.world import ADMIN, World, a_world, bearer

CHECKS = '''"""Two checks of an order; one of a limit fails for order-4712."""

from pydantic import BaseModel

from lib.errors import PermanentError
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.stage import stage


class Check(BaseModel):
    """Nothing."""


@stage("check_address", payload=Check)
def check_address(_check: Check, context: Context) -> Complete:
    """Pass."""
    return Complete()


@stage("check_limit", payload=Check)
def check_limit(_check: Check, context: Context) -> Complete:
    """Pass, but for one order."""
    if context.job.correlation_id == "order-4712":
        raise PermanentError("too much")
    return Complete()
'''


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Iterator[World]:
    (text,) = fenced("batches", language="python")
    file = tmp_path / text.splitlines()[0].removeprefix("# ")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (file.parent / "checks.py").write_text(CHECKS)
    monkeypatch.syspath_prepend(tmp_path)
    with a_world(database_url, GIFTCARD_STAGES="shop.stages") as made:
        yield made
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


def test_the_pages_order_is_shipped_after_both_checks(world: World) -> None:
    (body,) = (json.loads(text) for text in fenced("batches", language="json"))
    made = world.client.post("/api/v1/batches", json=body, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    world.drain()
    job = world.job(stage="ship")
    assert (job["status"], job["correlation_id"], job["context"]["shipped"]) == ("completed", "order-4711", True)
    assert job["context"]["batch"]["completed"] == 2


def test_the_pages_statement_makes_one_that_is_not_shipped_without_a_check(world: World) -> None:
    (statement,) = fenced("batches", language="sql")
    world.sql(statement)
    world.drain()
    job = world.job(stage="ship")
    assert job["status"] == "error"
    assert job["last_error"] == "PermanentError: only 1 of 2 checks have passed"
