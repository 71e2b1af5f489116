"""Sending many jobs back to the queue: by filter, with a question, progress, and slowly."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from lib.errors import Unavailable
from lib.job import Complete
from lib.store.postgres import PostgresWire
from tests.cli.conftest import NOT_A_TERMINAL, Door, Terminal, dead_letters
from tests.support.world import World, an_order


def test_nothing_asked_for_is_refused(door: Door) -> None:
    dead_letters(door.world, 2)
    assert "--all" in door.refuses("requeue", "--yes")
    assert door.world.statuses() == {"error": 2}


BAD_OPTIONS = [
    ["1", "--stage", "email"],
    ["1", "--all"],
    ["1", "--dry-run"],
    ["--stage", "email", "--force"],
    ["--all", "--payload", "{}"],
    ["1", "2", "--payload", "{}"],
    ["--status", "completed", "--yes"],
    ["--all", "--per-minute", "0"],
    ["--all", "--after", "-1"],
]


def test_options_that_do_not_go_together_are_refused(door: Door) -> None:
    dead_letters(door.world, 2)
    for options in BAD_OPTIONS:
        door.refuses("requeue", *options)
    assert door.world.statuses() == {"error": 2}


def test_dry_run_counts_and_changes_nothing(door: Door) -> None:
    dead_letters(door.world, 3)
    dead_letters(door.world, 2, stage="payment")
    found = door.json("requeue", "--stage", "email", "--dry-run")
    assert (found["matched"], found["requeued"], found["dry_run"], found["done"]) == (3, 0, True, True)
    assert door.says("requeue", "--all", "--dry-run").startswith("5 dead letters would be requeued")
    assert door.world.statuses() == {"error": 5}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--all"], 6),
        (["--stage", "payment"], 2),
        (["--error", "HTTP 500"], 2),
        (["--tenant", "acme"], 1),
        (["--circuit", "email"], 4),
        (["--flow", "dead-1", "--stage", "email"], 2),
        (["--created-before", "2001-01-01T00:00:00Z"], 0),
        (["--status", "cancelled"], 3),
    ],
    ids=lambda value: value if isinstance(value, int) else " ".join(value),
)
def test_filter_requeues_what_fits_and_nothing_else(door: Door, options: list[str], count: int) -> None:
    dead_letters(door.world, 3)
    dead_letters(door.world, 2, stage="payment", error="HTTP 500")
    dead_letters(door.world, 1, tenant="acme")
    dead_letters(door.world, 3, stage="webhook", status="cancelled")
    found = door.json("requeue", *options, "--yes")
    assert {name: found[name] for name in ("matched", "requeued", "done", "dry_run")} == {
        "matched": count,
        "requeued": count,
        "done": True,
        "dry_run": False,
    }
    assert door.world.statuses().get("queued", 0) == count


def test_nobody_there_to_ask_changes_nothing(door: Door) -> None:
    dead_letters(door.world, 1234)
    assert door.refuses("requeue", "--all", types="y\n") == NOT_A_TERMINAL
    assert door.world.statuses() == {"error": 1234}


def test_question_answered_with_yes_requeues(door: Door, terminal: Terminal) -> None:
    dead_letters(door.world, 1234)
    code, screen = terminal.run(door.app, *door.before[1:], "requeue", "--all", types="y\n")
    assert "Requeue 1,234 dead letters? [y/N]" in screen
    assert "1,234 dead letters requeued" in screen
    assert (code, door.world.statuses()) == (0, {"queued": 1234})


@pytest.mark.parametrize("types", ["n\n", "\n", "\x04"], ids=["no", "return", "end of file"])
def test_question_not_answered_with_yes_changes_nothing(direct: Door, terminal: Terminal, types: str) -> None:
    dead_letters(direct.world, 2)
    code, screen = terminal.run(direct.app, "requeue", "--stage", "email", types=types)
    assert "Requeue 2 dead letters? [y/N]" in screen
    assert "nothing was changed" in screen
    assert (code, direct.world.statuses()) == (2, {"error": 2})


def test_progress_is_seen_on_a_terminal(door: Door, terminal: Terminal, small_parts: None) -> None:
    dead_letters(door.world, 1200)
    code, screen = terminal.run(door.app, *door.before[1:], "requeue", "--all", "--yes")
    assert code == 0
    for done in ("500/1200", "1000/1200", "1200/1200"):
        assert done in screen


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API does one step a request."""
    monkeypatch.setattr("lib.web.jobs._BULK_SECONDS", 0.0)


def test_bulk_over_several_requests_is_one_answer(remote: Door, small_parts: None) -> None:
    dead_letters(remote.world, 1001)
    last = remote.world.value("select max(id) from public.giftcard_jobs")
    assert remote.json("requeue", "--all", "--yes") == {
        "matched": 1001,
        "requeued": 1001,
        "done": True,
        "after": last,
        "dry_run": False,
    }
    assert remote.world.statuses() == {"queued": 1001}


class Breaks(PostgresWire):
    """Something happens at the second step of bulk work."""

    error: BaseException = Unavailable("the database went away")
    left = 2

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if function == "giftcard_requeue_jobs" and not arguments["dry_run"]:
            self.left -= 1
            if not self.left:
                raise self.error
        return super().call(function, repeat=repeat, **arguments)


def test_database_that_goes_away_midway_is_told_with_what_was_done(
    make_world: Callable[..., World], database_url: str
) -> None:
    world = make_world(wire=Breaks(database_url))
    dead_letters(world, 700)
    said = Door(world.app, world).refuses("requeue", "--all", "--yes", code=1)
    assert said == "the database went away; 500 were requeued before that: repeat the command for the rest"
    assert world.statuses() == {"queued": 500, "error": 200}
    assert Door(world.app, world).json("requeue", "--all", "--yes")["requeued"] == 200


def test_interrupt_midway_is_told_with_what_was_done(make_world: Callable[..., World], database_url: str) -> None:
    wire = Breaks(database_url)
    wire.error = KeyboardInterrupt()
    world = make_world(wire=wire)
    dead_letters(world, 700)
    said = Door(world.app, world).refuses("requeue", "--all", "--yes", code=1)
    assert said == "interrupted; 500 were requeued before that: repeat the command for the rest"


# Slowly


@pytest.fixture
def healed(make_world: Callable[..., World]) -> Iterator[Callable[[bool], World]]:
    """A house whose mail works again, or still does not."""

    def make(well: bool) -> World:
        def handler(payload: Any, context: Any) -> Complete:
            if not well:
                raise RuntimeError("still down")
            return Complete()

        return make_world(handlers={"email": handler})

    return make


def test_slowly_stops_when_the_first_fails(healed: Callable[[bool], World]) -> None:
    world = healed(False)
    dead_letters(world, 5)
    result = Door(world.app, world).run("requeue", "--all", "--slowly", "--yes", "--json")
    assert result.exit_code == 2
    assert '"stopped_at": 1' in result.stdout
    assert "the rest was not requeued" in result.stderr
    assert world.statuses() == {"queued": 1, "error": 4}


def test_slowly_spreads_the_rest_once_the_first_is_completed(healed: Callable[[bool], World]) -> None:
    world = healed(True)
    dead_letters(world, 5)
    found = Door(world.app, world).json("requeue", "--all", "--slowly", "--per-minute", 60, "--yes")
    assert (found["requeued"], found["done"]) == (5, True)
    due = world.sql("select scheduled_at from public.giftcard_jobs where status = 'queued' order by id")
    gaps = [later["scheduled_at"] - sooner["scheduled_at"] for sooner, later in pairwise(due)]
    assert (world.statuses(), gaps) == ({"completed": 1, "queued": 4}, [timedelta(seconds=1)] * 3)


def test_slowly_keeps_its_rate_over_several_requests(
    healed: Callable[[bool], World], make_world: Callable[..., World], serve: Callable[[Any], Any], small_parts: None
) -> None:
    world = healed(True)
    dead_letters(world, 1201)
    far = Door(make_world(wire=None).app, world, url=serve(world.app).url)
    assert far.json("requeue", "--all", "--slowly", "--per-minute", 60, "--yes")["requeued"] == 1201
    assert world.statuses() == {"completed": 1, "queued": 1200}
    due = world.sql("select scheduled_at from public.giftcard_jobs where status = 'queued' order by id")
    gaps = [later["scheduled_at"] - sooner["scheduled_at"] for sooner, later in pairwise(due)]
    assert min(gaps) >= timedelta(seconds=1)


def test_question_says_how_slowly(direct: Door, terminal: Terminal) -> None:
    dead_letters(direct.world, 2)
    _, screen = terminal.run(direct.app, "requeue", "--all", "--slowly", types="n\n")
    assert "Requeue 2 dead letters, the first alone, then 10 a minute? [y/N]" in screen


def test_requeued_jobs_really_run(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("customer_ingest", an_order(), status="error")
    door.says("requeue", "--stage", "customer_ingest", "--yes")
    door.says("tick", "--stage", "customer_ingest")
    assert world.job(job_id)["status"] == "completed"
