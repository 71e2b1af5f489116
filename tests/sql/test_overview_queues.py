"""The overview's stages, open circuits, oldest due job and dead letters."""

from typing import Any

import pytest

from lib.job import Error, Retry
from tests.support.factory import STAGES, World, each
from tests.support.overview import add_tick, overview

NOTHING = {
    "waiting": 0, "retrying": 0, "later": 0, "running": 0, "dead": 0, "cap": 1000, "oldest_due_at": None,
    "availability": "ready", "paused": None, "runs": 0, "succeeded": 0, "p50_ms": None, "p95_ms": None,
}  # fmt: skip
AT_NOON = "2035-01-01T12:00:00+00:00"
QUEUED = """
    insert into giftcard_jobs (correlation_id, stage, circuit, attempts, scheduled_at)
    select 'x' || n, 'email', %s || case when n %% 2 = 0 then ':a' else ':b' end, %s, %s from generate_series(1, %s) n
"""


def stages(world: World, **more: Any) -> dict[str, Any]:
    """What is unusual of each stage."""
    rows = overview(world, **more)["stages"]
    assert [row["stage"] for row in rows] == sorted(row["stage"] for row in rows)
    assert all(set(row) == {"stage", *NOTHING} for row in rows)
    return {row["stage"]: {n: row[n] for n in NOTHING if row[n] != NOTHING[n]} for row in rows}


def busy(world: World, **more: Any) -> dict[str, Any]:
    return {name: row for name, row in stages(world, **more).items() if row}


# Stages


def test_all_stages_of_the_code_are_shown_also_without_jobs(world: World) -> None:
    assert stages(world) == {name: {} for name in STAGES}
    assert stages(world, stages={"email": 60}, missing={"payment": "PAYMENT_URL"}) == {
        "email": {}, "payment": {"availability": "parked"}
    }  # fmt: skip


@pytest.mark.parametrize("stages_of_code", [None, {}])
def test_without_stages_those_that_have_jobs_are_shown(world: World, stages_of_code: Any) -> None:
    assert stages(world, stages=stages_of_code, missing=None) == {}
    world.enqueue()
    shown = stages(world, stages=stages_of_code, missing=None)
    parked = {} if stages_of_code is None else {"availability": "parked"}
    assert shown == {"email": {"waiting": 1, "oldest_due_at": AT_NOON} | parked}


def test_jobs_are_counted_by_what_becomes_of_them(world: World) -> None:
    world.dead_letter()
    world.dead_letter(revive=60)
    world.claimed()
    world.settled(Retry(delay=9, error="E: no"))
    each(world.enqueue, 2)
    world.enqueue(delay_seconds=60)
    world.enqueue(delay_seconds=-90)
    world.completed()
    world.cancelled()
    world.enqueue("report")
    assert {n: row for n, row in busy(world)["email"].items() if not n.endswith("_ms")} == {
        "waiting": 4, "retrying": 1, "later": 2, "running": 1, "dead": 2, "runs": 4, "succeeded": 1,
        "oldest_due_at": "2035-01-01T11:58:30+00:00",
    }  # fmt: skip
    assert busy(world)["report"] == {"waiting": 1, "availability": "parked", "oldest_due_at": AT_NOON}


def test_each_count_is_capped_over_all_circuits_of_a_stage(world: World) -> None:
    world.run(QUEUED, "email", 0, world.now, 1100)
    assert busy(world)["email"] == {"waiting": 1000, "oldest_due_at": AT_NOON}
    world.run("update giftcard_jobs set attempts = 1 where id in (select id from giftcard_jobs limit 150)")
    assert busy(world)["email"] == {"waiting": 950, "retrying": 150, "oldest_due_at": AT_NOON}
    world.run("update giftcard_jobs set scheduled_at = 'infinity'")
    assert busy(world)["email"] == {"waiting": 950, "retrying": 150, "later": 1000}
    world.run("update giftcard_jobs set status = 'running'")
    assert busy(world)["email"] == {"running": 1000}
    world.run("update giftcard_jobs set status = 'error', finished_at = %s", world.now)
    assert busy(world)["email"] == {"dead": 1000}


def test_a_stage_is_as_available_as_its_worst_circuit(world: World) -> None:
    world.open_circuit("http_call:a")
    world.later(40)
    world.open_circuit("http_call:b")
    assert stages(world)["http_call"]["availability"] == "blocked"
    world.later(30)
    assert stages(world)["http_call"]["availability"] == "blocked"
    world.later(30)
    assert stages(world)["http_call"]["availability"] == "probing"
    for circuit in ("http_call:a", "http_call:b"):
        world.call("reset_circuit", circuit=circuit)
    assert "availability" not in stages(world)["http_call"]


def test_a_pause_is_shown_with_who_and_why(world: World) -> None:
    world.call("pause", stage="email", by="kate", reason="vendor moves")
    world.call("pause", stage="unknown", by="kate")
    world.call("pause", stage="*", by="käte", reason=None)
    paused = {"by": "kate", "reason": "vendor moves", "since": AT_NOON}
    assert busy(world)["email"] == {"availability": "parked", "paused": paused}
    assert busy(world)["unknown"]["paused"]["by"] == "kate"
    assert "*" not in stages(world)
    assert overview(world)["all_paused"] == {"by": "käte", "reason": None, "since": AT_NOON}
    world.call("resume", stage="*", by="kate")
    assert overview(world)["all_paused"] is None


# Circuits


def test_an_open_circuit_has_its_failures_its_queue_and_its_last_error(world: World) -> None:
    world.open_circuit("email")
    world.enqueue(delay_seconds=600)
    each(world.enqueue, 2)
    (shown,) = overview(world)["circuits"]
    assert shown == {
        "circuit": "email", "stage": "email", "state": "open", "failures": 3, "since": AT_NOON,
        "open_until": "2035-01-01T12:01:00+00:00", "waiting": 2, "last_error": "TransientError: no",
    }  # fmt: skip


def test_a_failed_probe_counts_and_the_outage_keeps_its_beginning(world: World) -> None:
    world.open_circuit("email")
    probe = world.enqueue()
    world.later(61)
    assert overview(world)["circuits"][0]["state"] == "half_open"
    (job,) = world.claim()
    assert job.id == probe
    world.settle(job, Error(error="TransientError: still", counts=True), trips=3)
    (shown,) = overview(world)["circuits"]
    assert {name: shown[name] for name in ("state", "failures", "since", "open_until", "last_error")} == {
        "state": "open", "failures": 4, "since": AT_NOON, "open_until": "2035-01-01T12:02:01+00:00",
        "last_error": "TransientError: still",
    }  # fmt: skip
    world.call("reset_circuit", circuit="email")
    world.later(60)
    world.open_circuit("email")
    assert overview(world)["circuits"][0]["since"] == "2035-01-01T12:02:01+00:00"
    assert overview(world)["circuits"][0]["failures"] == 3


def test_of_many_circuits_those_that_most_jobs_wait_behind_come_first(world: World) -> None:
    world.run(
        """insert into giftcard_circuits (circuit, state, open_until)
             select 'http_call:' || n, 'open', %s::timestamptz + interval '1 minute' from generate_series(1, 300) n""",
        world.now,
    )
    world.run("insert into giftcard_circuits (circuit, state, open_until) values ('payment', 'open', 'infinity')")
    world.enqueue("http_call", circuit="http_call:17")
    each(lambda: world.enqueue("payment"), 2)
    shown = overview(world)
    assert [(c["circuit"], c["waiting"]) for c in shown["circuits"]][:3] == [
        ("payment", 2), ("http_call:17", 1), ("http_call:1", 0)
    ]  # fmt: skip
    assert (len(shown["circuits"]), shown["circuits_more"]) == (20, True)
    by_hand = shown["circuits"][0]
    assert [by_hand[name] for name in ("open_until", "since", "failures", "last_error")] == [None, None, 0, None]


# The oldest due job


def oldest(world: World, **more: Any) -> Any:
    return overview(world, **more)["oldest_due"]


def test_the_job_that_is_due_for_longest_is_shown_with_why_it_waits(world: World) -> None:
    assert oldest(world) is None
    world.enqueue(delay_seconds=60)
    assert oldest(world) is None
    world.enqueue("payment", delay_seconds=-10)
    job_id = world.enqueue("http_call", delay_seconds=-30, tenant_id="shop")
    assert oldest(world) == {
        "job_id": job_id, "stage": "http_call", "tenant_id": "shop", "since": "2035-01-01T11:59:30+00:00",
        "reason": "no_tick", "text": "no tick has ever run: is the clock calling?",
    }  # fmt: skip
    assert world.now
    add_tick(world, world.now)
    assert oldest(world)["reason"] == "next_tick"
    assert oldest(world, missing={"http_call": "HTTP_URL"})["reason"] == "stage_not_configured"
    assert oldest(world, stages={"email": 60})["reason"] == "stage_unknown"
    world.call("pause", stage="http_call", by="kate")
    assert oldest(world)["reason"] == "stage_paused"


def test_a_job_that_is_due_since_ever_has_no_time(world: World) -> None:
    job_id = world.enqueue()
    world.run("update giftcard_jobs set scheduled_at = '-infinity' where id = %s", job_id)
    assert (oldest(world)["job_id"], oldest(world)["since"]) == (job_id, None)


# Dead letters


def test_dead_letters_are_grouped_by_stage_and_kind(world: World) -> None:
    for number in (17, 18):
        world.settled(Error(error=f"TransientError: HTTP 503 for order {number}", revive=3600 - number))
        world.later(1)
    newest = world.settled(Error(error="TransientError: HTTP 503 for order 19"))
    world.dead_letter("payment")
    shown = overview(world)
    assert shown["dead"][0] == {
        "stage": "email", "kind": "TransientError: HTTP 503 for order [n]", "count": 3, "capped": False,
        "since": AT_NOON, "last_at": "2035-01-01T12:00:02+00:00", "job_id": newest,
        "revive_at": "2035-01-01T12:59:43+00:00",
    }  # fmt: skip
    assert [(d["stage"], d["count"], d["revive_at"]) for d in shown["dead"]] == [
        ("email", 3, "2035-01-01T12:59:43+00:00"), ("payment", 1, None)
    ]  # fmt: skip
    assert shown["dead_more"] is False


def test_ten_groups_of_dead_letters_are_shown_the_largest_first(world: World) -> None:
    for number in range(11):
        for _ in range(2 if number == 7 else 1):
            world.settled(Error(error=f"Error{chr(65 + number)}: no"))
    shown = overview(world)
    assert (len(shown["dead"]), shown["dead_more"], shown["dead"][0]["kind"]) == (10, True, "ErrorH: no")


def test_a_thousand_dead_letters_of_a_stage_may_be_more(world: World) -> None:
    world.run(
        """insert into giftcard_jobs (correlation_id, stage, circuit, status, last_error, finished_at)
             select n, 'email', 'email', 'error', null, 'infinity' from generate_series(1, 1001) n"""
    )
    (group,) = overview(world)["dead"]
    assert group | {"job_id": 0} == {
        "stage": "email", "kind": "no error text", "count": 1000, "capped": True, "since": None, "last_at": None,
        "job_id": 0, "revive_at": None,
    }  # fmt: skip
