"""1,500 rows and more come whole on every wire: PostgREST cuts sets at 1,000, and none of our answers is one."""

import uuid
from typing import Any

import pytest

from lib.job import Complete
from lib.store.codec import Result
from lib.store.store import Store
from tests.support.acts import KIM
from tests.support.factory import World

MANY = 1_500
TICK: dict[str, Any] = {"owner": "host:1", "source": "test", "live_seconds": 130}


@pytest.fixture
def jobs(world: World) -> None:
    """So many jobs of one flow, due now."""
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, dedup_key)"
        " select 'flow', 'email', n::text from generate_series(1, %s) n",
        MANY,
    )


@pytest.mark.usefixtures("jobs")
def test_a_claim_and_its_settle(store: Store, world: World) -> None:
    step = store.begin_tick(key=str(uuid.uuid4()), stages={"email": 60}, limit=MANY, **TICK)
    assert len({job.id for job in step.jobs}) == MANY
    results = [Result(job=job, outcome=Complete(context={"text": "é" * 100})) for job in step.jobs]
    step = store.advance_tick(step.tick_id, claim_key=str(uuid.uuid4()), results=results, limit=0, busy=0)
    assert {settled.settled for settled in step.settled} == {"settled"}
    assert len({settled.id for settled in step.settled}) == MANY
    assert world.rows("select status, count(*) as jobs from giftcard_jobs group by 1") == [
        {"status": "completed", "jobs": MANY}
    ]


@pytest.mark.usefixtures("jobs")
def test_a_flow_that_is_cancelled(store: Store) -> None:
    assert store.cancel_flow("default", "flow", caller=KIM)["cancelled"] == MANY


@pytest.mark.usefixtures("jobs")
def test_pages_meet_each_job_once(store: Store) -> None:
    seen: list[int] = []
    before = None
    while True:
        page = store.list_jobs(filter={}, limit=200, before=before, stages={}, missing={})
        seen += [job["id"] for job in page["jobs"]]
        before = page["older"]
        if before is None:
            break
    assert len(seen) == len(set(seen)) == MANY


def test_a_call_takes_1000_jobs_and_tells_of_each(store: Store) -> None:
    jobs = [{"stage": "email", "correlation_id": f"é{n}", "payload": {"text": "x" * 500}} for n in range(1_000)]
    answers = store.enqueue(jobs)
    assert len({answer["id"] for answer in answers}) == 1_000
    assert all(answer["created"] for answer in answers)


def test_a_job_with_1500_runs_has_a_history_in_pages_of_1000(store: Store, world: World) -> None:
    job_id = world.enqueue()
    world.run(
        "insert into giftcard_job_history"
        " (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)"
        " select %s, n, 1, 'email', 'FAILED', now(), now(), now() from generate_series(1, %s) n",
        job_id,
        MANY,
    )
    page = store.history(job_id, limit=MANY, tenant_id=None)
    assert [run["run_no"] for run in page["runs"]] == list(range(MANY, MANY - 1_000, -1))
    rest = store.history(job_id, limit=MANY, older=page["older"], tenant_id=None)
    assert ([run["run_no"] for run in rest["runs"]], rest["older"]) == (list(range(MANY - 1_000, 0, -1)), None)


def test_all_mails_of_an_erased_customer_are_named(store: Store, world: World) -> None:
    who = {"external_id": "C-1", "email": "k@example.org", "given_name": "K", "family_name": None}
    customer = store.save_customer(tenant_id="default", **who)["id"]
    world.run(
        "insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, customer_id, created_at)"
        " select 'default', n::text, '', 1, 'EUR', %s, now() from generate_series(1, %s) n",
        customer,
        MANY,
    )
    world.run(
        "insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key)"
        " select 'default', n::text, 'email', '', 'send', 'key-' || n from generate_series(1, %s) n",
        MANY,
    )
    assert len(set(store.erase_customer(customer, caller=KIM)["mails"])) == MANY
