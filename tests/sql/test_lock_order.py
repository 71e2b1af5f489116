"""What locks several rows locks them in one order: calls in opposite orders wait for each other, and never deadlock."""

import threading
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.slow

ROUNDS = 12
KEYS = [f"k{n}" for n in range(12)]
Call = Callable[[psycopg.Connection[Any], list[int], int], None]


def _json(value: Any) -> Any:
    return psycopg.types.json.Jsonb(value)


def _jobs(way: int, stages: tuple[str, ...] = ("fresh",)) -> list[dict[str, Any]]:
    rows = [{"stage": stage, "correlation_id": key} for stage in stages for key in KEYS]
    rows += [{"stage": "fresh", "correlation_id": f"more-{n}"} for n in range(400)]
    return rows[::way]


def enqueue(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    asked = _jobs(way)
    answers = connection.execute("select giftcard_enqueue(%s)", [_json(asked)]).fetchone()
    assert answers is not None
    flows = dict(connection.execute("select id, correlation_id from giftcard_jobs where stage = 'fresh'").fetchall())
    assert [flows[answer["id"]] for answer in answers[0]] == [job["correlation_id"] for job in asked]


def enqueue_again(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute("select giftcard_enqueue(%s, true)", [_json(_jobs(way, ("fresh", "work")))])


def settle(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    leases = dict(
        connection.execute("select id, lease_id::text from giftcard_jobs where id = any(%s)", [ids]).fetchall()
    )
    outcomes = ["complete", "retry", "error", "snooze"]
    results = [
        {
            "id": job,
            "lease_id": leases[job] or "00000000-0000-4000-8000-000000000009",
            "outcome": outcomes[(n + (way < 0) * 2) % 4],
            "delay": 0,
            "error": "E",
            "next": [{"stage": "fresh", "dedup_key": ""}] if n % 2 == 0 else None,
        }
        for n, job in enumerate(ids)
    ][::way]
    connection.execute("select giftcard_settle(%s)", [_json(results)])


def claim(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    """It takes over what has an ended lease, and due jobs of several circuits."""
    connection.execute(
        "select giftcard_begin_tick(gen_random_uuid(), 'worker', 'test', %s, 20, 130, 1, p_now => clock_timestamp()"
        " + interval '2 hours')",
        [_json({"work": 60, "many": 60, "fresh": 60})],
    )


def trip(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    """Failures that open two circuits."""
    leases = dict(
        connection.execute("select id, lease_id::text from giftcard_jobs where id = any(%s)", [ids]).fetchall()
    )
    results = [
        {"id": job, "lease_id": leases[job], "outcome": "retry", "delay": 0, "error": "E", "trips": 1}
        for job in ids
        if leases[job]
    ][::way]
    connection.execute("select giftcard_settle(%s)", [_json(results)])


def requeue(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute("select giftcard_requeue_jobs('{}', p_dry_run => false)")


def requeue_dead(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute("select giftcard_requeue_dead_letters(p_dry_run => false)")


def cancel_flow(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute("select giftcard_cancel_flow('default', 'shared')")


def make_due(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute("select giftcard_make_due('default', 'shared', 'many')")


def prune(connection: psycopg.Connection[Any], ids: list[int], way: int) -> None:
    connection.execute(
        "select giftcard_prune(interval '1 day', interval '1 day', p_dry_run => false,"
        " p_now => now() + interval '9 days')"
    )


CALLS: list[Call] = [
    enqueue,
    enqueue_again,
    settle,
    requeue,
    requeue_dead,
    cancel_flow,
    make_due,
    prune,
    claim,
    trip,
]


def _prepared(connection: psycopg.Connection[Any]) -> list[int]:
    """Running jobs of flows of their own, and of one flow, whose dedup keys run against their ids."""
    connection.execute("delete from giftcard_jobs")
    connection.execute("delete from giftcard_circuits")
    connection.execute(
        "insert into giftcard_jobs (correlation_id, stage, dedup_key, status, lease_id, locked_at, lease_expires_at)"
        " select k, 'work', '', 'running', gen_random_uuid(), now(), now() + interval '1 hour'"
        " from unnest(%s::text[]) k",
        [KEYS],
    )
    connection.execute(
        "insert into giftcard_jobs (correlation_id, stage, dedup_key, status, lease_id, locked_at, lease_expires_at)"
        " select 'shared', 'many', to_char(99 - n, '00'), 'running', gen_random_uuid(), now(),"
        " now() + interval '1 hour' from generate_series(1, 12) n"
    )
    return [job_id for (job_id,) in connection.execute("select id from giftcard_jobs order by id").fetchall()]


@pytest.fixture
def connections(database_url: str) -> Iterator[list[psycopg.Connection[Any]]]:
    opened = [psycopg.connect(database_url, autocommit=True) for _ in range(2)]
    for connection in opened:
        connection.execute("set deadlock_timeout = '20ms'")
    yield opened
    for connection in opened:
        connection.close()


def at_once(calls: list[Callable[[], None]]) -> list[BaseException]:
    """What these calls raise when they begin together."""
    barrier = threading.Barrier(len(calls))
    raised: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.parametrize(
    ("first", "second"), list(combinations_with_replacement(CALLS, 2)), ids=lambda call: call.__name__
)
def test_two_in_opposite_orders_never_deadlock(
    connection: psycopg.Connection[Any], connections: list[psycopg.Connection[Any]], first: Call, second: Call
) -> None:
    one, other = connections
    for _ in range(ROUNDS):
        ids = _prepared(connection)
        assert at_once([lambda ids=ids: first(one, ids, 1), lambda ids=ids: second(other, ids, -1)]) == []


def test_books_never_wait_for_a_job(
    connection: psycopg.Connection[Any], connections: list[psycopg.Connection[Any]]
) -> None:
    """A cancel of the flow holds its jobs and waits for the card; an event of its payment holds the card."""
    holder, books = connections
    connection.execute("select giftcard_enqueue_block('default', 'o', null)")
    books.execute("set lock_timeout = '1s'")
    with holder.transaction():
        holder.execute("select from giftcard_jobs where stage = 'block_card' for update")
        books.execute("select giftcard_enqueue_block('default', 'o', null)")
    assert connection.execute("select count(*) from giftcard_jobs where stage = 'block_card'").fetchone() == (2,)
    books.execute("select giftcard_enqueue_block('default', 'o', null)")
    assert connection.execute("select count(*) from giftcard_jobs where stage = 'block_card'").fetchone() == (2,)
