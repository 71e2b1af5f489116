"""What leaves, when, and how much of it at once."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Snooze
from tests.support.books import issue, pay, take
from tests.support.factory import Row, World, each

DAY = 86_400.0
LIMITS = {
    "jobs": "30 days",
    "dead_letters": "90 days",
    "history": "60 days",
    "ticks": "30 days",
    "circuit_changes": "40 days",
    "archive": "365 days",
}


def prune(world: World, *, dry_run: bool = False, limit: int = 1000, **limits: str | None) -> Row:
    answer: Row = world.call("prune", **(LIMITS | limits), limit=limit, dry_run=dry_run)
    return answer


def there(world: World, *job_ids: int) -> list[bool]:
    return [bool(world.rows("select from giftcard_jobs where id = %s", job_id)) for job_id in job_ids]


def archived(world: World, job_id: int) -> Row:
    (row,) = world.rows("select * from giftcard_jobs_archive where id = %s", job_id)
    return row


# When


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_a_finished_job_leaves_when_its_limit_is_over_and_not_before(world: World, end: str) -> None:
    job_id = getattr(world, end)(payload={"a": {"b": None}})
    was = world.job(job_id)
    world.later(30 * DAY - 1)
    assert prune(world)["jobs"] == 0
    world.later(1)
    assert prune(world)["jobs"] == 1
    assert there(world, job_id) == [False]
    row = archived(world, job_id)
    assert row["job"]["payload"] == {"a": {"b": None}}
    assert row["archived_at"] == world.now
    assert {name: row[name] for name in ("tenant_id", "correlation_id", "stage", "dedup_key")}.items() <= was.items()


def test_a_dead_letter_has_a_limit_of_its_own(world: World) -> None:
    job_id = world.dead_letter()
    world.later(90 * DAY - 1)
    assert prune(world)["jobs"] == 0
    world.later(1)
    assert prune(world)["jobs"] == 1
    assert archived(world, job_id)["job"]["last_error"] == "TransientError: no"


def test_a_dead_letter_that_can_revive_never_leaves(world: World) -> None:
    job_id = world.dead_letter(revive=500 * DAY)
    world.later(400 * DAY)
    assert prune(world)["jobs"] == 0
    assert there(world, job_id) == [True]


@pytest.mark.parametrize(
    "opened",
    [
        lambda w: w.enqueue("payment", correlation_id="f", delay_seconds=999 * DAY),
        lambda w: w.claimed("payment", correlation_id="f"),
        lambda w: w.dead_letter("payment", correlation_id="f"),
        lambda w: w.dead_letter("payment", correlation_id="f", revive=999 * DAY),
    ],
    ids=["queued", "running", "dead", "reviving"],
)
def test_a_job_stays_while_another_of_its_flow_is_open(world: World, opened: Callable[[World], Any]) -> None:
    first = world.completed(correlation_id="f")
    other = world.completed(correlation_id="f", tenant_id="acme")
    opened(world)
    world.later(31 * DAY)
    assert prune(world)["jobs"] == 1
    assert there(world, first, other) == [True, False]


def test_a_whole_flow_leaves_at_once(world: World) -> None:
    jobs = [world.completed(stage, correlation_id="f") for stage in ("payment", "issue_card", "email")]
    world.later(31 * DAY)
    assert prune(world)["jobs"] == 3
    assert there(world, *jobs) == [False] * 3


def test_a_flow_that_was_paid_and_has_no_card_stays(world: World) -> None:
    job_id = world.cancelled("issue_card", correlation_id="f")
    take(world, "f")
    pay(world, "f")
    world.later(999 * DAY)
    assert prune(world)["jobs"] == 0
    issue(world, "f")
    assert prune(world)["jobs"] == 1
    assert there(world, job_id) == [False]


def test_without_a_limit_everything_stays(world: World) -> None:
    world.completed()
    world.dead_letter()
    world.later(9999 * DAY)
    assert prune(world, **dict.fromkeys(LIMITS)) == {
        **dict.fromkeys(("jobs", "history", "ticks", "circuit_changes", "archive"), 0),
        "done": True,
        "dry_run": False,
    }


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_of_less_than_a_day_is_refused(world: World, kind: str) -> None:
    with pytest.raises(psycopg.Error, match="nothing younger than a day") as caught:
        prune(world, **{kind: "30"})  # Postgres' word for thirty seconds
    assert caught.value.sqlstate == "GC400"


# What else leaves


def test_runs_leave_by_their_age_whatever_became_of_their_job(world: World) -> None:
    job_id = world.settled(Snooze(delay=61 * DAY, waiting_for="x"))
    world.later(61 * DAY)
    world.settle(world.claim_one(job_id), Snooze(delay=1, waiting_for="x"))
    assert prune(world)["history"] == 1
    assert [run["run_no"] for run in world.history(job_id)] == [2]


def test_many_runs_of_one_job_leave_in_steps(world: World) -> None:
    job_id = world.enqueue()
    world.run(
        "insert into giftcard_job_history"
        " (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)"
        " select %s, n, 1, 'email', 'SNOOZED', t, t, t from generate_series(1, 50) n,"
        " lateral (select %s::timestamptz + make_interval(days => n)) x(t)",
        job_id,
        world.now,
    )
    world.later(100 * DAY)  # forty of them are older than sixty days
    steps = [prune(world, limit=7) for _ in range(6)]
    assert [step["history"] for step in steps] == [7, 7, 7, 7, 7, 5]
    assert [step["done"] for step in steps] == [False] * 5 + [True]
    assert [run["run_no"] for run in world.history(job_id)] == [*range(41, 51)]


def test_ticks_leave_once_they_are_old_and_over(world: World) -> None:
    old = [world.begin(limit=0).id for _ in range(2)]
    world.later(30 * DAY - 100)
    young = world.begin(limit=0).id
    live = world.begin(limit=0, live_seconds=9 * DAY).id
    world.run("update giftcard_ticks set started_at = started_at - interval '30 days' where id = %s", live)
    world.later(100)
    assert prune(world)["ticks"] == 2
    assert [tick["id"] for tick in world.rows("select id from giftcard_ticks order by id")] == [young, live]
    assert old[0] < young


def test_changes_of_circuits_leave_and_circuits_stay(world: World) -> None:
    world.open_circuit()
    world.later(40 * DAY)
    world.call("reset_circuit", circuit="email")
    assert prune(world)["circuit_changes"] == 1
    assert [change["to_state"] for change in world.changes("email")] == ["closed"]
    assert world.circuit("email")["state"] == "closed"


def test_what_lies_in_the_archive_leaves_for_good(world: World) -> None:
    world.completed()
    world.later(30 * DAY)
    prune(world)
    world.later(365 * DAY - 1)
    assert prune(world)["archive"] == 0
    world.later(1)
    assert prune(world)["archive"] == 1
    assert world.rows("select from giftcard_jobs_archive") == []


# How much at once


def test_a_dry_run_counts_from_the_beginning_and_changes_nothing(world: World) -> None:
    jobs = each(world.completed, 5)
    world.later(100 * DAY)
    prune(world, limit=1)
    world.call("restore_job", job_id=jobs[0])
    before = world.snapshot(*jobs), world.rows("select * from giftcard_prune_cursors")
    answer = prune(world, dry_run=True)
    assert (answer["jobs"], answer["dry_run"], answer["done"]) == (4, True, True)
    assert (world.snapshot(*jobs), world.rows("select * from giftcard_prune_cursors")) == before
    assert world.ask("prune")["dry_run"] is True


def test_a_step_is_bounded_and_the_next_goes_on(world: World) -> None:
    each(world.completed, 10)
    world.later(31 * DAY)
    steps = [prune(world, limit=4, history=None) for _ in range(3)]
    assert [(step["jobs"], step["done"]) for step in steps] == [(4, False), (4, False), (2, True)]


def test_what_has_to_stay_holds_nothing_up(world: World) -> None:
    """A hundred old jobs that may not leave lie before one that may."""
    for n in range(50):
        world.completed(correlation_id=f"open-{n}")
    for n in range(50):
        world.enqueue("payment", correlation_id=f"open-{n}", delay_seconds=999 * DAY)
    last = world.completed()
    world.later(31 * DAY)
    for _ in range(12):
        prune(world, limit=5)
    assert there(world, last) == [False]
    assert prune(world, limit=1000)["done"]


def test_the_next_round_finds_what_has_become_free(world: World) -> None:
    first = world.completed(correlation_id="f")
    open_one = world.enqueue("payment", correlation_id="f", delay_seconds=999 * DAY)
    world.later(31 * DAY)
    assert prune(world)["jobs"] == 0
    world.call("cancel", job_id=open_one)
    assert prune(world)["jobs"] == 1
    assert there(world, first, open_one) == [False, True]


def test_what_somebody_works_on_stays(database_url: str, world: World) -> None:
    held, free = world.completed(), world.completed()
    world.later(31 * DAY)
    with psycopg.connect(database_url) as other:
        other.execute("select from giftcard_jobs where id = %s for update", [held])
        assert prune(world)["jobs"] == 1
    assert there(world, held, free) == [True, False]
