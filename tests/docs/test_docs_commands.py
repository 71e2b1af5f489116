"""What the pages give to type can be typed: make targets, `flask jobs …`, scripts, SQL, and a stage of one's own."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import psycopg
import pytest

from dev import ROOT
from dev.testing.vendors import Vendor
from lib.cli import jobs
from tests.support.acts import ACTS
from tests.support.pages import ALL_TEXT, fenced, named, rows, to_type
from tests.support.world import World, a_world


def test_every_script_is_told_beside_its_twins_and_every_script_told_is_there() -> None:
    there = {f"sql/{path.name}" for path in (ROOT / "sql").glob("*.sql")}
    beside_twins = {name for cells in rows("runbook", columns=4) for name in named(cells[1])}
    assert there == {name for name in beside_twins if name.startswith("sql/")}
    assert there == set(re.findall(r"\bsql/\w+\.sql", ALL_TEXT))


def test_the_make_targets_that_the_pages_name_exist() -> None:
    makefile, ci = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".ci/run"))
    listed = re.findall(r"(?m)^([a-z-]+):.*##", makefile)
    targets = set(listed)
    assert sorted(listed) == sorted(targets), "each once"
    assert targets == set(re.findall(r"(?m)^\.PHONY: (.*)", makefile)[0].split()), (
        "make does nothing for one without a rule"
    )
    assert set(re.findall(r"\bmake ([a-z-]+)", ci)) <= targets
    used = {found[1] for text in to_type() if (found := re.match(r"make (?:[A-Z]+=\S+ )*([a-z-]+)", text))}
    assert {"demo", "dev", "migrate", "test"} <= used <= targets


def test_each_action_of_the_audit_is_described() -> None:
    described = {name for cells in rows("api", columns=2) if cells[0] == "`action`" for name in named(cells[1])}
    assert {act.action for act in ACTS.values()} <= described


def _flask_commands() -> list[str]:
    found = (re.match(r"(?:\S*/)?(flask jobs .*)", text) for text in to_type())
    return sorted({match[1].strip() for match in found if match})


def test_every_command_is_told() -> None:
    assert set(jobs.list_commands(click.Context(jobs))) <= {word for text in _flask_commands() for word in text.split()}


@pytest.mark.parametrize("text", _flask_commands())
def test_a_command_that_the_pages_show_is_understood(text: str) -> None:
    concrete = re.sub(r"\bID\b", "4711", text).replace("FILE.csv", "data/orders.csv").replace("data/", f"{ROOT}/data/")
    with jobs.make_context("jobs", shlex.split(concrete)[2:]) as context:
        _parse(jobs, context)


def _parse(group: click.Group, context: click.Context) -> None:
    """Down to the last command, without running it."""
    rest = [*context._protected_args, *context.args]
    if rest:
        name, command, arguments = group.resolve_command(context, rest)
        assert command, name
        with command.make_context(name, arguments, parent=context) as inner:
            if isinstance(command, click.Group):
                _parse(command, inner)


@pytest.mark.parametrize("statement", fenced("runbook", language="sql"))
def test_a_statement_of_the_runbook_runs(statement: str, connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        # The placeholder's row is not there: our own refusal, not a mistake in the statement.
        assert error.sqlstate == "GC404"  # noqa: PT017


# The stage of docs/stages.md


def _stage() -> str:
    """The page's file."""
    return fenced("stages", language="python")[0]


@pytest.fixture
def programme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: Vendor) -> Iterator[Vendor]:
    """The loyalty programme. The page's file lies where it says, in a folder of this test."""
    file = tmp_path / _stage().splitlines()[0].removeprefix("# ")
    vendor.default = (200, {"balance": 125})
    file.parent.mkdir(parents=True)
    file.write_text(_stage())
    monkeypatch.syspath_prepend(tmp_path)
    yield vendor
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def world(programme: Vendor, database_url: str) -> Iterator[World]:
    own = {"GIFTCARD_STAGES": "shop.stages", "LOYALTY_URL": f"{programme.url}/points", "LOYALTY_KEY": "key-of-a-test"}
    with a_world(database_url, **own) as made:
        yield made


def _enqueue(world: World) -> int:
    """By the page's own statement."""
    statement = fenced("stages", language="sql")[0]
    world.sql(statement)
    job_id: int = world.job(stage="loyalty_points")["id"]
    return job_id


def test_the_pages_function_commits_with_the_settle(database_url: str) -> None:
    function = fenced("stages", language="sql")[1]
    (file,) = [code for code in fenced("stages", language="python") if "then=Call" in code]
    names: dict[str, Any] = {"__name__": "shop.stages.credit_points"}
    exec(file, names)  # noqa: S102

    def credit(payload: Any, context: Any) -> Any:
        return names["credit_points"].handler(SimpleNamespace(amount=payload), context)

    with a_world(database_url, handlers={"credit": credit}) as world:
        world.sql(function)
        good, bad = world.run_job("credit", {"amount": 2500}), world.run_job("credit", {"amount": 50})
        assert (good["status"], bad["status"]) == ("completed", "error")
        assert bad["last_error"].startswith("PermanentError: shop.credit refused: ")
        points = world.sql("select * from shop.points")
    assert points == [{"order_id": good["correlation_id"], "points": 25}]


def test_the_pages_stage_fits_on_a_screen() -> None:
    assert 20 <= len([line for line in _stage().splitlines() if line]) <= 50


def test_the_pages_stage_runs(world: World, programme: Vendor) -> None:
    job_id = _enqueue(world)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"] == {"loyalty_balance": 125}
    (request,) = programme.requests
    assert request.headers["Idempotency-Key"].startswith("gc_")
    assert (request.path, request.body) == ("/points", {"member": "kate@example.com", "points": 25})


def test_the_pages_stage_asks_again_under_the_same_key(world: World, programme: Vendor) -> None:
    programme.respond(503)
    job_id = _enqueue(world)
    assert world.tick()["retried"] == 1
    assert world.job(job_id)["last_error"] == "TransientError: the loyalty programme answered 503"
    world.move(10)
    assert world.tick()["completed"] == 1
    assert len({request.headers["Idempotency-Key"] for request in programme.requests}) == 1
    world.sql("select giftcard_requeue(%s, p_force => true)", job_id)
    assert world.tick()["completed"] == 1
    assert len(programme.requests) == 2, "the result was there"


def test_the_pages_stage_gives_up_what_is_refused(world: World, programme: Vendor) -> None:
    programme.respond(422)
    job_id = _enqueue(world)
    assert world.tick()["errored"] == 1
    assert world.job(job_id)["revive_at"] is None


def test_a_payload_that_does_not_fit_the_pages_stage_is_an_error_of_that_job_alone(
    world: World, programme: Vendor
) -> None:
    job_id = _enqueue(world)
    (wrong,) = world.enqueue("loyalty_points", {"customer": {}})
    report = world.tick()
    assert (report["completed"], report["errored"]) == (1, 1)
    assert world.job(job_id)["status"] == "completed"
    assert world.job(wrong)["last_error"].startswith("PermanentError: payload: customer")
    assert len(programme.requests) == 1
