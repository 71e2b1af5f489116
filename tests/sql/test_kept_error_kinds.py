"""A job keeps the kind of its last error, whatever wrote the error: by it, filters find all equal errors at once."""

from collections.abc import Callable

import pytest

from lib.job import Error, Retry
from tests.support.factory import World

FROM_A, FROM_B = "TransientError: HTTP 503 from a.example.com:443", "TransientError: HTTP 503 from b.example.com"
KIND = "TransientError: HTTP 503 from [host]"


def inserted(world: World) -> int:
    sql = "insert into giftcard_jobs (correlation_id, stage, status, last_error) values ('a', 'email', 'error', %s)"
    (row,) = world.rows(f"{sql} returning id", FROM_A)
    return int(row["id"])


def updated(world: World) -> int:
    job_id = world.enqueue()
    world.run("update giftcard_jobs set status = 'error', last_error = %s where id = %s", FROM_A, job_id)
    return job_id


def taken_by_hand(world: World) -> int:
    """An operator's UPDATE of a job that runs."""
    job_id = world.claimed().id
    world.run("update giftcard_jobs set status = 'error', last_error = %s where id = %s", FROM_A, job_id)
    return job_id


def imported(world: World) -> int:
    """A message that cannot be a job."""
    item = {"msg_id": 1, "sent_at": "1", "job": {"stage": "email"}}
    world.call("keep_message", queue="q", item=item, outcome="refused", reason=FROM_A)
    return int(world.rows("select id from giftcard_jobs")[0]["id"])


def restored(world: World) -> int:
    job_id = world.settled(Error(error=FROM_A))
    world.run("select giftcard_archive_jobs(array[%s::bigint], now())", job_id)
    assert world.call("show_job", job_id=job_id)["error_kind"] == KIND
    world.call("restore_job", job_id=job_id)
    return job_id


def cancelled(world: World) -> int:
    job_id = world.settled(Error(error=FROM_A))
    world.call("cancel", job_id=job_id)
    return job_id


def claimed_again(world: World) -> int:
    job_id = world.settled(Retry(delay=0, error=FROM_A))
    world.claim_one(job_id)
    return job_id


# Everything that leaves an error in a job.
LEAVES: dict[str, Callable[[World], int]] = {
    "a retry": lambda world: world.settled(Retry(delay=1, error=FROM_A)),
    "a dead letter": lambda world: world.settled(Error(error=FROM_A)),
    "a dead letter that revives": lambda world: world.settled(Error(error=FROM_A, revive=60)),
    "claimed again": claimed_again,
    "cancelled": cancelled,
    "inserted": inserted,
    "updated": updated,
    "taken by hand": taken_by_hand,
    "imported": imported,
    "restored": restored,
}


@pytest.mark.parametrize("leaves", LEAVES)
def test_whatever_leaves_an_error_leaves_its_kind(world: World, leaves: str) -> None:
    assert world.job(LEAVES[leaves](world))["error_kind"] == KIND


def test_a_job_that_is_put_aside_has_the_kind_of_its_fault(world: World) -> None:
    job_id = world.enqueue()
    assert world.call("put_aside", job_id=job_id, error="no row 7") is True
    assert world.job(job_id)["error_kind"] == "FaultyRow: no row [n]"


@pytest.mark.parametrize("clears", ["requeue", "requeue_jobs", "requeue_dead_letters", "by hand", "complete"])
def test_whatever_clears_an_error_clears_its_kind(world: World, clears: str) -> None:
    if clears == "complete":
        job_id = world.settled(Retry(delay=0, error=FROM_A))
        world.call("settle", results=[{"id": job_id, "lease_id": world.claim_one(job_id).lease_id,
                                       "outcome": "complete"}])  # fmt: skip
    else:
        job_id = world.settled(Error(error=FROM_A))
        if clears == "by hand":
            world.by_hand(job_id)
        elif clears == "requeue":
            world.call("requeue", job_id=job_id)
        else:
            world.call(clears, **({"filter": {"error_kind": KIND}} if clears == "requeue_jobs" else {}), dry_run=False)
    assert (world.job(job_id)["last_error"], world.job(job_id)["error_kind"]) == (None, None)


def test_nothing_of_a_person_stays_in_a_kind(world: World) -> None:
    who = {"external_id": "C-1", "email": "kate@example.com", "given_name": "Kate", "family_name": None}
    saved = world.call("save_customer", tenant_id="default", **who)
    payload = {"customer": {"external_id": "C-1", "email": "kate@example.com"}}
    here = world.settled(Error(error="PermanentError: Kate is refused"), payload=payload)
    archived = world.settled(Error(error="PermanentError: Kate is refused"), payload=payload)
    world.run("select giftcard_archive_jobs(array[%s::bigint], now())", archived)
    world.call("erase_customer", customer_id=saved["id"], by="ann")
    assert [world.call("show_job", job_id=job_id)["error_kind"] for job_id in (here, archived)] == ["erased"] * 2


def test_the_filter_takes_the_whole_kind(world: World) -> None:
    equal = [world.settled(Error(error=error)) for error in (FROM_A, FROM_B)]
    world.settled(Error(error="TransientError: HTTP 500 from a.example.com"))
    world.enqueue()
    without = world.dead_letter()
    world.run("update giftcard_jobs set last_error = null where id = %s", without)

    def found(kind: str) -> list[int]:
        jobs = world.call("list_jobs", filter={"error_kind": kind})["jobs"]
        step = world.call("requeue_jobs", filter={"error_kind": kind}, dry_run=True)
        assert step["matched"] == len(jobs)
        return sorted(job["id"] for job in jobs)

    assert (found(KIND), found(KIND.lower()), found(KIND[:-1]), found("%")) == (equal, [], [], [])
    assert found("no error text") == [without]
    assert world.call("requeue_jobs", filter={"error_kind": KIND}, dry_run=False)["ids"] == equal


@pytest.mark.parametrize("blank", [" ", "\x85", "\xa0", "\u2003", "\u2028", "\u2029", "\u3000", "\x9f", "\n"])
def test_a_kind_is_one_line_without_blanks_around_it(world: World, blank: str) -> None:
    """As the API takes it in a filter: what it lists can be asked for."""
    job_id = world.settled(Error(error=f"{blank}E:{blank}a{blank}"))
    assert world.job(job_id)["error_kind"] == "E: a"
    cut = world.settled(Error(error="x" * 199 + f"{blank}y"))
    assert world.job(cut)["error_kind"] == "x" * 199
