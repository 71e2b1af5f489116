"""What someone changes under a run, or beside it, changes nothing for the other runs."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Outcome, Snooze
from tests.support.world import World
from tests.tick.test_one_by_one import good, refuse, rows_line

Make = Callable[..., World]


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)


@pytest.mark.parametrize(
    "change",
    ["locked_at = null", "attempts = 0", "attempts = 1000000", "run_no = 1000000000", "revivals = 1000000",
     "scheduled_at = '-infinity'", "locked_at = 'infinity'", "context = '{}'"],
)  # fmt: skip
@pytest.mark.parametrize("outcome", [Complete(), Snooze(delay=60, waiting_for="the night"), None])
def test_running_row_that_is_changed_by_hand_is_settled_and_stops_no_other(
    make_world: Make, change: str, outcome: Outcome | None
) -> None:
    def changed(payload: Any, context: Any) -> Outcome:
        world.sql(f"update giftcard_jobs set {change} where id = %s", context.job.id)
        if outcome is None:
            raise ValueError("no")
        return outcome

    world = make_world(handlers={"work": good, "changed": changed}, GIFTCARD_CONCURRENCY=10)
    world.enqueue("work", count=3)
    (culprit,) = world.enqueue("changed")
    report = world.tick()
    counts = (report["snoozed"], report["retried"], report["completed"])
    assert counts == {"Complete": (0, 0, 4), "Snooze": (1, 0, 3), "NoneType": (0, 1, 3)}[type(outcome).__name__]
    status = world.value("select status from giftcard_jobs where id = %s", culprit)
    assert status == ("completed" if isinstance(outcome, Complete) else "queued")
    assert rows_line(world)["level"] == "green"


def test_line_of_history_that_exists_is_written_over_whatever_the_outcome(make_world: Make) -> None:
    outcomes: dict[str, Outcome] = {"done": Complete(), "waits": Snooze(delay=60, waiting_for="the night")}
    world = make_world(handlers={name: (lambda payload, context, o=o: o) for name, o in outcomes.items()})
    for name in outcomes:
        (job_id,) = world.enqueue(name)
        world.sql(
            "insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
            " finished_at, error) values (%s, 1, 7, 'old', 'FAILED', '2020-01-01', '2020-01-01', '2020-01-01', 'old')",
            job_id,
        )
    report = world.tick()
    assert (report["completed"], report["snoozed"]) == (1, 1)
    for name in outcomes:
        (run,) = world.history(world.job(stage=name)["id"])
        assert (run["attempt"], run["stage"], run["started_at"].year > 2020) == (1, name, True)
        assert run["result"] == {"done": "SUCCESS", "waits": "SNOOZED"}[name]


@pytest.mark.parametrize("table", ["giftcard_circuits", "giftcard_webhook_endpoints", "giftcard_ticks"])
def test_what_follows_a_settle_never_undoes_it(make_world: Make, table: str) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise ValueError("no")

    world = make_world(handlers={"work": good, "fails": fails}, GIFTCARD_CONCURRENCY=10)
    world.enqueue("work", count=3)
    world.enqueue("fails")
    if table == "giftcard_webhook_endpoints":
        world.sql(
            "insert into giftcard_webhook_endpoints (tenant_id, url, events, secret_encrypted, created_at, updated_at)"
            " values ('default', 'https://example.com/', '{job.completed}', 'x', now(), now())"
        )
        refuse(world, "giftcard_jobs", "insert", "new.stage = 'webhook'")
    elif table == "giftcard_circuits":
        refuse(world, table, "insert or update", "new.circuit = 'fails'")
    else:
        refuse(world, table, "update", "new.completed > 0 or new.started > 0")
    report = world.tick()
    assert (report["completed"], report["retried"]) == (3, 1)
    kind = {"giftcard_circuits": "circuit", "giftcard_webhook_endpoints": "webhook", "giftcard_ticks": "tick"}[table]
    assert f"rows: {kind} " in rows_line(world)["message"]


def test_probe_that_cannot_be_recorded_leaves_its_circuit_alone(world: World) -> None:
    world.enqueue("work")
    world.enqueue("other")
    world.sql(
        "insert into giftcard_circuits (circuit, state, changed_at, open_until)"
        " values ('other', 'open', now() - interval '1 hour', now() - interval '1 minute')"
    )
    refuse(world, "giftcard_circuits", "update", "new.circuit = 'other'")
    assert world.tick()["completed"] == 1
    assert world.job(stage="other")["status"] == "queued"
    assert "circuit other (passed over): not this row" in rows_line(world)["message"]


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("outcome", [Complete(), Complete(context={"a": 1}), Complete(detail={"a": 1})])
def test_run_whose_row_is_deleted_is_lost_and_not_complete(
    make_world: Make, caplog: pytest.LogCaptureFixture, outcome: Outcome, others: int
) -> None:
    """Also where it was all that a call settled."""

    def deleted(payload: Any, context: Any) -> Outcome:
        world.sql("delete from giftcard_jobs where id = %s", context.job.id)
        return outcome

    world = make_world(handlers={"work": good, "deleted": deleted}, GIFTCARD_CONCURRENCY=10)
    world.enqueue("work", count=others)
    world.enqueue("deleted")
    report = world.tick()
    assert (report["completed"], report["lease_lost"]) == (others, 1)
    assert [record.getMessage() for record in caplog.records].count("lease_lost") == 1
