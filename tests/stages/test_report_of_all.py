"""The nightly report of all tenants: however many they are, whatever they are called, whichever of them fails."""

import time
from datetime import UTC, datetime, timedelta

from tests.support.world import World

TENANTS = 3_000


def orders_of_yesterday(world: World, *tenants: str) -> None:
    world.sql(
        """insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, created_at)
           select tenant, 'order-1', 'hash', 2500, 'USD', now() - interval '1 day' from unnest(%s::text[]) tenant""",
        list(tenants),
    )


def yesterday() -> str:
    return str(datetime.now(UTC).date() - timedelta(days=1))


def run_all(world: World) -> list[int]:
    """The jobs of all tenants, run until no other one follows. Their ids."""
    (first,) = world.enqueue("report", {"tenant_id": "*"})
    open_jobs = "select id from giftcard_jobs where payload ->> 'tenant_id' = '*' and status = 'queued'"
    ran: list[int] = []
    while waiting := world.sql(open_jobs):
        for row in waiting:
            assert world.run(only_job_id=row["id"], limit=1).started == 1
            ran.append(row["id"])
    assert ran[0] == first
    return ran


def test_three_thousand_tenants_are_as_many_jobs_within_the_time_limit_of_each(world: World) -> None:
    names = [f"tenant-{number:05}" for number in range(TENANTS)]
    orders_of_yesterday(world, *names)
    began = time.monotonic()
    ran = run_all(world)
    assert time.monotonic() - began < 60, "all of them, in less than the ttr of one"
    assert len(ran) == TENANTS // 500 + 1
    assert {world.job(job_id)["status"] for job_id in ran} == {"completed"}
    made = world.sql("select dedup_key, payload from giftcard_jobs where payload ->> 'tenant_id' <> '*'")
    assert sorted(job["dedup_key"] for job in made) == names
    assert all(job["payload"] == {"tenant_id": job["dedup_key"], "day": yesterday()} for job in made)


def test_odd_names_stop_no_other_tenant_and_are_named(world: World) -> None:
    odd = ["*", "*/1", "\x07bell", " space", "n" * 201, "line\nbreak"]
    orders_of_yesterday(world, *odd, "acme", "zoo", "Ünï/çode")
    (job_id,) = run_all(world)
    assert world.job(job_id)["status"] == "completed"
    world.drain()
    made = world.sql("select tenant_id from giftcard_reports order by tenant_id")
    assert [row["tenant_id"] for row in made] == ["acme", "zoo", "Ünï/çode"]
    detail = world.history(job_id)[0]["detail"]
    assert detail["left_out"] == len(odd)
    assert "*/1" in detail["first_left_out"]


def test_a_tenant_whose_report_fails_costs_no_other_its_own(world: World) -> None:
    orders_of_yesterday(world, "acme", "broken", "zoo")
    world.sql("alter table giftcard_reports add constraint c check (tenant_id <> 'broken')")
    run_all(world)
    world.drain()
    made = world.sql("select tenant_id from giftcard_reports order by tenant_id")
    assert [row["tenant_id"] for row in made] == ["acme", "zoo"]


def test_a_tenant_with_a_failure_beyond_the_first_page_is_found_too(world: World) -> None:
    orders_of_yesterday(world, *(f"t{number:04}" for number in range(500)))
    world.sql(
        """insert into giftcard_jobs (tenant_id, correlation_id, stage, status, last_error, finished_at)
             values ('zz', 'x', 'email', 'error', 'E', now() - interval '1 day')"""
    )
    assert len(run_all(world)) == 2
    assert world.value("select count(*) from giftcard_jobs where dedup_key = 'zz'") == 1
