"""Where a payload comes from: what plain SQL writes is marked, whatever it claims to be."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete, NextJob
from tests.support.factory import World

JOB = {"correlation_id": "c", "stage": "email"}


def insert(world: World, table: str = "jobs", **columns: Any) -> dict[str, Any]:
    """A row of plain SQL."""
    names, places = ", ".join(columns), ", ".join(["%s"] * len(columns))
    (row,) = world.rows(
        f"insert into giftcard_{table} ({names}) values ({places}) returning id, source", *columns.values()
    )
    return row


def source(world: World, job_id: int, table: str = "jobs") -> str:
    (row,) = world.rows(f"select source from giftcard_{table} where id = %s", job_id)
    return str(row["source"])


def enqueue(world: World, **fields: Any) -> int:
    return world.enqueue(**fields)


@pytest.mark.parametrize("claim", [{}, {"trigger_type": "api"}, {"source": "app"}, {"source": "pgmq"}])
def test_a_plain_insert_is_sql_whatever_it_claims(world: World, claim: dict[str, str]) -> None:
    assert insert(world, **JOB, **claim)["source"] == "sql"


@pytest.mark.parametrize("before", ["enqueue", "requeue", "schedule", "settle"])
def test_it_is_so_in_the_transaction_of_a_function_too(world: World, before: str) -> None:
    job = world.claimed(source="app")
    if before == "settle":
        world.settle(job, Complete(next=(NextJob(stage="payment"),)))
    elif before == "requeue":
        world.call("requeue", job_id=world.dead_letter(), payload={"n": 1}, source="app")
    elif before == "schedule":
        schedule(world)
    assert insert(world, **JOB, source="app")["source"] == "sql"


def test_it_is_so_after_a_function_that_failed(world: World) -> None:
    world.run(
        'do $$ begin begin perform public.giftcard_enqueue(\'[{"stage": "email"}]\');'
        " exception when others then null; end;"
        " insert into public.giftcard_jobs (correlation_id, stage, source) values ('c', 'email', 'app'); end $$"
    )
    assert world.rows("select source from giftcard_jobs") == [{"source": "sql"}]


def test_an_enqueue_without_a_source_is_sql(world: World) -> None:
    sources = [source(world, enqueue(world, **given)) for given in ({}, {"trigger_type": "api"}, {"source": "app"})]
    assert sources == ["sql", "sql", "app"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("payload = '{\"n\": 2}'", "sql"),
        ("payload = payload || '{\"n\": 2}', status = 'queued'", "sql"),
        ("source = 'pgmq'", "sql"),
        ("payload = payload", "app"),
        ("status = 'queued', scheduled_at = now(), attempts = 0, last_error = null", "app"),
    ],
)
def test_an_update_by_hand_is_sql_if_it_changes_the_payload(world: World, change: str, left: str) -> None:
    job_id = enqueue(world, source="app", payload={"n": 1})
    world.run(f"update giftcard_jobs set {change}")
    assert source(world, job_id) == left


@pytest.mark.parametrize("given", ["app", "pgmq", "sql"])
def test_next_jobs_have_the_source_of_their_flow(world: World, given: str) -> None:
    job = world.claimed(source=given)
    assert job.source == given
    world.settle(job, Complete(next=(NextJob(stage="payment", payload={"n": 2}),)))
    (row,) = world.rows("select source from giftcard_jobs where stage = 'payment'")
    assert row["source"] == given


def test_a_requeue_keeps_the_source_and_a_corrected_payload_brings_its_own(world: World) -> None:
    job_id = world.dead_letter(source="pgmq", payload={"n": 1})
    for payload, given, left in [(None, None, "pgmq"), ({"n": 1}, "app", "pgmq"), ({"n": 2}, "app", "app"),
                                 ({"n": 3}, None, "sql")]:  # fmt: skip
        world.call("requeue", job_id=job_id, payload=payload, source=given)
        assert source(world, job_id) == left
        world.call("cancel", job_id=job_id)


def test_an_enqueue_that_replaces_brings_its_source(world: World) -> None:
    job_id = world.dead_letter(source="app", correlation_id="c", payload={"n": 1})
    world.call("enqueue", jobs=[JOB | {"payload": {"n": 2}}], replace=True)
    assert source(world, job_id) == "sql"


@pytest.mark.parametrize("given", ["app", "sql"])
def test_the_archive_keeps_the_source(world: World, given: str) -> None:
    job_id = world.completed(source=given)
    world.ask("archive_jobs", ids=(job_id,), now=world.now)
    world.call("restore_job", job_id=job_id)
    assert source(world, job_id) == given


def archived(world: World, **fields: Any) -> int:
    job_id = world.completed(**fields)
    world.ask("archive_jobs", ids=(job_id,), now=world.now)
    return job_id


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ('job = job || \'{"payload": {"n": 2}}\'', "sql"),
        ('job = job || \'{"source": "pgmq"}\'', "sql"),
        ('job = job || \'{"status": "error"}\'', "app"),
        ("archived_at = now()", "app"),
    ],
)
def test_an_archived_job_whose_payload_is_changed_by_hand_is_sql(world: World, change: str, left: str) -> None:
    job_id = archived(world, source="app", payload={"n": 1})
    world.run(f"update giftcard_jobs_archive set {change}")
    world.call("restore_job", job_id=job_id)
    assert source(world, job_id) == left


def test_an_archived_job_that_is_inserted_by_hand_is_sql(world: World) -> None:
    job_id = archived(world, source="app")
    world.run("""with gone as (delete from giftcard_jobs_archive returning *)
                 insert into giftcard_jobs_archive select * from gone""")
    world.call("restore_job", job_id=job_id)
    assert source(world, job_id) == "sql"


def test_an_archived_job_is_restored_in_its_own_place(world: World) -> None:
    job_id = archived(world, tenant_id="acme")
    world.run("""update giftcard_jobs_archive set job = job || '{"id": 999, "tenant_id": "other"}'""")
    world.call("restore_job", job_id=job_id, tenant_id="acme")
    assert world.rows("select id, tenant_id from giftcard_jobs") == [{"id": job_id, "tenant_id": "acme"}]


# Schedules


def schedule(world: World, **more: Any) -> dict[str, Any]:
    columns = {
        "tenant_id": "default", "name": "n", "schedule": "0 * * * *", "timezone": "UTC", "stage": "email",
        "payload": {"n": 1}, "semantics": "at_least_once", "is_recurring": True, "missed_policy": "skip",
        "catch_up_seconds": 300, "missed_cap": 100, "overlap_policy": "skip",
    }  # fmt: skip
    saved: dict[str, Any] = world.call("save_schedule", schedule=columns, next_at=world.now, **more)
    return saved


def occurrence(world: World, schedule_id: int) -> str:
    """The source of the job of an occurrence."""
    plan = {"id": schedule_id, "version": 1, "next_at": None, "last_at": "2035-01-01T12:00:00Z",
            "jobs": [JOB | {"correlation_id": f"s-{schedule_id}", "source": "app"}]}  # fmt: skip
    (job_id,) = world.call("enqueue_occurrences", planned=[plan])["jobs"]
    return source(world, job_id)


def test_jobs_have_the_source_of_their_schedule(world: World) -> None:
    assert occurrence(world, schedule(world)["id"]) == "app"
    plain = insert(world, "schedules", schedule="0 * * * *", stage="email", source="app")
    assert (plain["source"], occurrence(world, plain["id"])) == ("sql", "sql")


def test_a_schedule_whose_payload_is_changed_by_hand_is_sql_until_it_is_saved_anew(world: World) -> None:
    saved = schedule(world)
    world.run("update giftcard_schedules set next_at = now(), version = version")
    assert source(world, saved["id"], "schedules") == "app"
    world.run("update giftcard_schedules set payload = '{}'")
    assert source(world, saved["id"], "schedules") == "sql"
    assert schedule(world, id=saved["id"], version=1)["source"] == "app"


# Webhooks


@pytest.mark.parametrize(
    "statement",
    [
        "insert into giftcard_jobs (correlation_id, stage) values ('c', 'webhook')",
        "insert into giftcard_jobs (correlation_id, stage, source) values ('c', 'webhook', 'app')",
        """select giftcard_enqueue('[{"correlation_id": "c", "stage": "webhook", "source": "app"}]')""",
        """select giftcard_enqueue('[{"correlation_id": "c", "stage": "webhook", "trigger_type": "event"}]', true)""",
        "update giftcard_jobs set stage = 'webhook', circuit = 'webhook'",
    ],
)
def test_only_the_database_makes_webhooks(world: World, statement: str) -> None:
    world.enqueue()
    with pytest.raises(psycopg.Error) as caught:
        world.run(statement)
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "stage")
    assert caught.value.diag.message_primary == "webhooks are enqueued by the database, when a job ends"
    assert world.rows("select from giftcard_jobs where stage = 'webhook'") == []
