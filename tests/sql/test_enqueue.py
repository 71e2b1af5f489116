"""How jobs come in by giftcard_enqueue."""

from typing import Any

import psycopg
import pytest

from lib.job import Error
from tests.support.factory import STAGES, World, ids


def job(**fields: Any) -> dict[str, Any]:
    return {"stage": "email", "correlation_id": "flow-1"} | fields


# The same one again


def test_the_same_job_again_is_answered_and_not_changed(world: World) -> None:
    (first,) = world.call("enqueue", jobs=[job(payload={"n": 1})])
    before = world.job(first["id"])
    world.later(5)
    (again,) = world.call("enqueue", jobs=[job(payload={"n": 2}, max_attempts=9)])
    assert again == {"id": first["id"], "status": "queued", "created": False}
    assert first == {"id": first["id"], "status": "queued", "created": True}
    assert world.job(first["id"]) == before


@pytest.mark.parametrize("other", ["tenant_id", "correlation_id", "stage", "dedup_key"])
def test_another_tenant_flow_stage_or_dedup_key_is_another_job(world: World, other: str) -> None:
    first, second = world.call("enqueue", jobs=[job(), job(**{other: "x"})])
    assert first["id"] != second["id"]
    assert second["created"]


def test_of_the_same_job_twice_in_one_call_the_first_is_stored(world: World) -> None:
    # Enough of them that a sort of equal keys would change their order.
    jobs = [job(dedup_key=str(number % 40), payload={"n": number}) for number in range(800)]
    answers = world.call("enqueue", jobs=jobs)
    assert [world.job(answer["id"])["payload"] for answer in answers[:40]] == [{"n": number} for number in range(40)]


def test_many_are_answered_in_their_order(world: World) -> None:
    (there,) = world.call("enqueue", jobs=[job(dedup_key="2")])
    answers = world.call("enqueue", jobs=[job(dedup_key=str(n)) for n in range(5)])
    assert [a["created"] for a in answers] == [True, True, False, True, True]
    assert answers[2]["id"] == there["id"]
    assert [world.job(a["id"])["dedup_key"] for a in answers] == ["0", "1", "2", "3", "4"]


def test_one_named_twice_in_a_call_is_one_job(world: World) -> None:
    first, second = world.call("enqueue", jobs=[job(), job()])
    assert first["id"] == second["id"]


def test_all_new_ones_are_answered_in_their_order(world: World) -> None:
    answers = world.call("enqueue", jobs=[job(dedup_key=str(n)) for n in range(50)])
    assert [world.job(a["id"])["dedup_key"] for a in answers] == [str(n) for n in range(50)]


@pytest.mark.parametrize("others", [0, 1])
def test_many_with_one_that_is_there_store_the_same_as_many_new_ones(world: World, others: int) -> None:
    # With one that is there, all take the way of few: that with ON CONFLICT.
    for number in range(others):
        world.call("enqueue", jobs=[job(dedup_key=str(number + 20))])
    asked = [
        job(
            dedup_key=str(n),
            circuit="email:x" if n % 2 else None,
            source="app",
            payload={"n": n},
            context={"c": n} if n % 3 else None,
            max_attempts=n % 4 or None,
            semantics="at_most_once" if n % 5 == 0 else None,
            ttr_seconds=n + 1,
            retry_delays=[n, 1.5] if n % 2 else None,
            priority=n % 7 - 3,
            concurrency_key=f"k{n}" if n % 2 else "",
            delay_seconds=n,
        )
        for n in range(60)
    ]
    answers = world.call("enqueue", jobs=asked)
    assert [a["created"] for a in answers] == [n not in range(20, 20 + others) for n in range(60)]
    stored = [world.job(a["id"]) for a in answers if a["created"]]
    wanted = [row for row, a in zip(asked, answers, strict=True) if a["created"]]
    for row, one in zip(stored, wanted, strict=True):
        shown = {"circuit": "email", "context": {}, "semantics": "at_least_once"}
        assert {name: row[name] for name in one if name != "delay_seconds"} == {
            name: (value if value not in (None, "") else shown.get(name))
            for name, value in one.items()
            if name != "delay_seconds"
        }
        assert (row["scheduled_at"] - row["created_at"]).total_seconds() == one["delay_seconds"]
    assert [row["id"] for row in stored] == sorted(row["id"] for row in stored)


def test_none_is_none_and_a_thousand_is_the_most(world: World) -> None:
    assert world.call("enqueue", jobs=[]) == []
    assert len(world.call("enqueue", jobs=[job(dedup_key=str(n)) for n in range(1000)])) == 1000
    with pytest.raises(psycopg.Error, match="1001 jobs are too many") as caught:
        world.call("enqueue", jobs=[job(dedup_key=str(n)) for n in range(1001)])
    assert caught.value.sqlstate == "GC400"


@pytest.mark.parametrize("make", ["dead_letter", "cancelled"])
def test_replace_queues_a_dead_or_cancelled_one_again(world: World, make: str) -> None:
    job_id = getattr(world, make)(correlation_id="flow-1", payload={"n": 1})
    (answer,) = world.call("enqueue", jobs=[job(payload={"n": 2})], replace=True)
    assert (answer["id"], answer["status"], answer["created"]) == (job_id, "queued", False)
    row = world.job(job_id)
    assert (row["payload"], row["attempts"], row["status"]) == ({"n": 2}, 0, "queued")


def test_replace_leaves_all_others_as_they_are(world: World) -> None:
    made = [
        world.completed(correlation_id="a"),
        world.claimed(correlation_id="b").id,
        world.enqueue(correlation_id="c", delay_seconds=60),
    ]
    before = world.snapshot(*made)
    answers = world.call("enqueue", jobs=[job(correlation_id=c, payload={"n": 2}) for c in "abc"], replace=True)
    assert [(a["id"], a["created"]) for a in answers] == [(i, False) for i in made]
    assert world.snapshot(*made) == before


def test_replace_with_another_payload_is_refused_once_an_effect_began(world: World) -> None:
    one = world.claimed("payment", correlation_id="flow-1", payload={"n": 1})
    world.call("begin_effect", job_id=one.id, lease_id=one.lease_id, name="charge")
    world.settle(one, Error(error="no"))
    before = world.snapshot(one.id)
    new = {"stage": "email", "correlation_id": "flow-2"}
    with pytest.raises(psycopg.Error) as caught:
        world.call("enqueue", jobs=[new, job(stage="payment", payload={"n": 2})], replace=True)
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC409", "payload")
    assert world.snapshot(one.id) == before
    assert world.rows("select * from giftcard_jobs where correlation_id = 'flow-2'") == []
    (answer,) = world.call("enqueue", jobs=[job(stage="payment", payload={"n": 1})], replace=True)
    assert answer["status"] == "queued"


# Values that are refused


@pytest.mark.parametrize("ttr", [0, -1])
def test_a_ttr_of_nothing_is_refused_at_the_enqueue(world: World, ttr: int) -> None:
    with pytest.raises(psycopg.Error, match="ttr"):
        world.call("enqueue", jobs=[job(), job(dedup_key="2", ttr_seconds=ttr)])
    assert world.rows("select * from giftcard_jobs") == []


@pytest.mark.parametrize(
    "when",
    [
        "2035-01-01T12:00:00",
        "2035-01-01 12:00",
        "2035-01-01",
        "tomorrow",
        "now",
        "infinity",
        "12:00",
        "20350101",
        2035,
        2051222400,
        {"at": "2035-01-01T12:00:00Z"},
        "",
    ],
)
def test_a_time_without_a_zone_is_refused(world: World, when: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("enqueue", jobs=[job(scheduled_at=when)])
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "scheduled_at")


@pytest.mark.parametrize(
    "when",
    [
        "2035-01-01T13:00:00Z",
        "2035-01-01T13:00:00z",
        "2035-01-01T14:00:00+01:00",
        "2035-01-01T14:00+01",
        "2035-01-01 08:30:00-0430",
        "2035-01-01T13:00:00.000000+00:00",
    ],
)
def test_a_time_with_its_zone_is_when_it_is_due(world: World, when: str) -> None:
    (answer,) = world.call("enqueue", jobs=[job(scheduled_at=when)])
    assert world.from_now(world.job(answer["id"])["scheduled_at"]) == 3600


def test_a_delay_counts_from_now(world: World) -> None:
    job_id = world.enqueue(delay_seconds=2.5)
    assert world.from_now(world.job(job_id)["scheduled_at"]) == 2.5
    assert world.claim() == []
    world.later(2.5)
    assert ids(world.claim()) == [job_id]


@pytest.mark.parametrize("jobs", [None, {}, "x", 1])
def test_what_is_no_array_is_refused(world: World, jobs: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("enqueue", jobs=psycopg.types.json.Jsonb(jobs))
    assert caught.value.sqlstate == "GC400"


@pytest.mark.parametrize("missing", ["stage", "correlation_id"])
def test_a_job_without_stage_or_flow_is_refused_and_its_neighbours_with_it(world: World, missing: str) -> None:
    bad = job(dedup_key="2") | {missing: None}
    with pytest.raises(psycopg.errors.NotNullViolation) as caught:
        world.call("enqueue", jobs=[job(), bad])
    assert caught.value.diag.column_name == missing
    assert world.rows("select * from giftcard_jobs") == []


def test_every_column_that_may_be_given_is_kept(world: World) -> None:
    given = {
        "tenant_id": "acme", "correlation_id": "c", "stage": "http_call", "dedup_key": "d", "circuit": "http_call:7",
        "trigger_type": "api", "source": "app", "payload": {"a": None}, "context": {"b": [1]}, "max_attempts": 7,
        "semantics": "at_most_once", "ttr_seconds": 7, "retry_delays": [1, 2.5],
    }  # fmt: skip
    (answer,) = world.call("enqueue", jobs=[given])
    row = world.job(answer["id"])
    assert {name: row[name] for name in given} == given
    (claimed,) = world.claim(stages=STAGES)
    assert (claimed.retry_delays, claimed.max_attempts, claimed.semantics) == ((1, 2.5), 7, "at_most_once")
