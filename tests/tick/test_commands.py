"""`flask jobs …` on the database: ticks, orders from a file, and how commands end when something is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dev import ROOT
from lib.cli import jobs
from tests.support.world import World, an_order

Make = Callable[..., World]

HEADER = "correlation_id,external_id,given_name,family_name,email,amount,currency,message,deliver_at"


def run(world: World, *arguments: Any) -> Result:
    world.app.cli.add_command(jobs)
    return world.app.test_cli_runner().invoke(args=["jobs", *map(str, arguments)])


def as_json(world: World, *arguments: Any, code: int = 0) -> Any:
    result = run(world, *arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def complains(world: World, *arguments: Any, code: int) -> str:
    """The one sentence of a command that failed."""
    result = run(world, *arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def test_orders_of_the_project_are_taken_in_once(world: World) -> None:
    first = as_json(world, "import-orders", ROOT / "data/orders.csv", code=3)
    assert (first["created"], first["repeated"], len(first["wrong"])) == (114, 0, 6)
    before = world.row_counts()
    assert (before["giftcard_orders"], before["giftcard_jobs"]) == (114, 114)
    second = as_json(world, "import-orders", ROOT / "data/orders.csv", code=3)
    assert (second["created"], second["repeated"], second["wrong"]) == (0, 114, first["wrong"])
    assert world.row_counts() == before


def test_wrong_row_is_named_and_stops_no_other(world: World, tmp_path: Path) -> None:
    rows = [
        "o-1,C-1,Kate,Rodgers,kate@example.com,25.00,USD,,",
        "o-2,C-2,Ann,Lee,ann at example,25.00,USD,,",
        ',C-3,Bob,Ray,bob@example.com,10.00,USD,"two\nlines",',
        "o-4,C-4,Eve,Poe,eve@example.com,10.001,USD,,2030-01-01T12:00:00",
        "o-5,C-5,Joe,Fox,joe@example.com,5,USD,,",
    ]
    file = tmp_path / "orders.csv"
    file.write_text("\n".join([HEADER, *rows]))
    outcome = as_json(world, "import-orders", file, code=3)
    assert outcome["created"] == 3
    assert [row["line"] for row in outcome["wrong"]] == [3, 6]
    told = run(world, "import-orders", file)
    assert told.exit_code == 3
    assert "email" in told.stdout
    assert "ann at example" not in told.output


def test_row_without_an_id_is_known_by_what_it_says(world: World, tmp_path: Path) -> None:
    row = ",C-1,Kate,Rodgers,kate@example.com,25.00,USD,,"
    file = tmp_path / "orders.csv"
    file.write_text("\n".join([HEADER, row, row]))
    assert as_json(world, "import-orders", file)["created"] == 2
    assert as_json(world, "import-orders", file)["repeated"] == 2


@pytest.mark.parametrize("content", ["", "name,amount\nKate,25\n", "\x00\x01"])
def test_file_that_is_no_list_of_orders_is_bad_input(world: World, tmp_path: Path, content: str) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(content)
    complains(world, "import-orders", file, code=2)
    assert world.row_counts()["giftcard_orders"] == 0


def test_tick_runs_what_is_due_and_reports(world: World) -> None:
    world.submit()
    report = as_json(world, "tick")
    assert (report["completed"], report["stopped_because"]) == (5, "drained")
    assert world.value("select source from giftcard_ticks") == "cli"
    told = run(world, "tick")
    assert (told.exit_code, "drained" in told.stdout) == (0, True)


def test_tick_with_limit_stage_and_job(world: World) -> None:
    for number in range(3):
        world.submit(an_order(correlation_id=f"o-{number}", customer={"external_id": f"C-{number}"}))
    assert as_json(world, "tick", "--limit", 1)["started"] == 1
    assert as_json(world, "tick", "--stage", "payment")["started"] == 0
    last = world.value("select max(id) from giftcard_jobs where stage = 'customer_ingest'")
    assert as_json(world, "tick", "--job-id", last)["started"] == 1
    assert world.job(last)["status"] == "completed"


def test_status_show_and_requeue_tell_what_the_doors_tell(make_world: Make) -> None:
    world = make_world(GIFTCARD_MAX_ATTEMPTS=1)
    (job_id,) = world.enqueue("customer_ingest", {"customer": "nobody"})
    as_json(world, "tick")
    assert as_json(world, "status")["counts"] == {"customer_ingest": {"error": 1}}
    shown = as_json(world, "show", job_id)
    assert (shown["id"], shown["status"], len(shown["history"])) == (job_id, "error", 1)
    for told in (run(world, "show", job_id), run(world, "status")):
        assert told.exit_code == 0
        assert "customer_ingest" in told.stdout
    assert run(world, "requeue", job_id).exit_code == 0
    assert (world.job(job_id)["status"], world.job(job_id)["attempts"]) == ("queued", 0)


BAD_INPUT: list[list[Any]] = [
    ["show", 999],
    ["show", 0],
    ["show", -1],
    ["show", "abc"],
    ["show", 2**63],
    ["requeue", 999],
    ["requeue", 2**80],
    ["tick", "--limit", 0],
    ["tick", "--budget", "nan"],
    ["tick", "--job-id", 2**63],
    ["import-orders", "there-is-no-such.csv"],
    ["fly"],
]


def test_bad_input_ends_with_2_and_one_sentence(world: World) -> None:
    for arguments in BAD_INPUT:
        complains(world, *arguments, code=2)


def test_refusal_ends_with_2_and_says_why(world: World) -> None:
    world.enqueue("customer_ingest", an_order(), status="completed")
    assert "completed" in complains(world, "requeue", world.job()["id"], code=2)


def test_database_that_is_away_ends_with_1_and_one_sentence(make_world: Make) -> None:
    away = make_world(DATABASE_URL="postgresql://somebody:hunter2-secret@127.0.0.1:9/giftcards")
    for command in (["tick"], ["status"], ["show", 1], ["requeue", 1], ["import-orders", ROOT / "data/orders.csv"]):
        assert "hunter2" not in complains(away, *command, code=1)
