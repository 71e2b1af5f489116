"""Lists of jobs in pages, and bulk work while rows move."""

import threading
from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer


def page(world: World, **query: Any) -> dict[str, Any]:
    response = world.client.get("/api/v1/jobs", headers=bearer(ADMIN), query_string=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json
    return found


def walk(world: World, way: str, **query: Any) -> list[int]:
    """All ids, page by page in one direction, in the order they came."""
    ids: list[int] = []
    found = page(world, **query)
    while True:
        ids += [job["id"] for job in found["jobs"]]
        if found[way] is None:
            return ids
        found = page(world, **query | {way: found[way]})


def test_pages_neither_skip_nor_repeat_jobs_of_the_same_instant(world: World) -> None:
    made = world.enqueue("payment", count=23, created_at="2026-01-01T12:00:00Z")
    assert walk(world, "older", limit=5) == made[::-1]


def test_pages_go_back_the_way_they_came(world: World) -> None:
    made = world.enqueue("payment", count=12, created_at="2026-01-01T12:00:00Z")
    last = page(world, limit=5, older=made[2])
    assert [job["id"] for job in last["jobs"]] == made[:2][::-1]
    assert last["older"] is None
    back = page(world, limit=5, newer=last["newer"])
    assert [job["id"] for job in back["jobs"]] == made[2:7][::-1]
    front = page(world, limit=5, newer=back["newer"])
    assert ([job["id"] for job in front["jobs"]], front["newer"]) == (made[7:][::-1], None)


def test_jobs_that_come_in_between_do_not_move_a_page(world: World) -> None:
    made = world.enqueue("payment", count=10)
    first = page(world, limit=5)
    world.enqueue("payment", count=3)
    second = page(world, limit=5, older=first["older"])
    assert [job["id"] for job in first["jobs"] + second["jobs"]] == made[::-1]


def test_each_filter_finds_its_own(world: World) -> None:
    (one,) = world.enqueue(
        "email", status="error", last_error="TransientError: Mail Server away", tenant_id="acme", correlation_id="c-7",
        created_at="2026-01-01T12:00:00Z",
    )  # fmt: skip
    world.enqueue("payment", count=2)
    for wanted in (
        {"status": "error"}, {"stage": "email"}, {"circuit": "email"}, {"tenant_id": "acme"}, {"correlation_id": "c-7"},
        {"error": "mail server"}, {"created_before": "2026-02-01T00:00:00Z"},
        {"created_after": "2026-01-01T12:00:00Z", "created_before": "2026-01-01T12:00:01Z"},
    ):  # fmt: skip
        assert [job["id"] for job in page(world, **wanted)["jobs"]] == [one], wanted


def test_personal_data_is_covered_until_somebody_asks_and_that_is_written_down(world: World) -> None:
    (job_id,) = world.enqueue(
        "email", {"customer": {"email": "kate@example.com"}, "number": "4111 1111 1111 1111"},
        status="error", last_error="SMTPError: kate@example.com",
    )  # fmt: skip
    shown = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN)).text + str(page(world))
    assert "kate@example.com" not in shown
    assert "4111 1111" not in shown
    assert world.value("select count(*) from public.giftcard_audit") == 0
    clear = world.client.get(f"/api/v1/jobs/{job_id}?reveal=true", headers=bearer(ADMIN)).text
    assert "kate@example.com" in clear
    (trace,) = world.sql("select by, action, subject from public.giftcard_audit")
    assert trace == {"by": "admin token", "action": "reveal", "subject": f"job {job_id}"}


@pytest.mark.slow
def test_requeueing_ten_thousand_dead_letters_while_ticks_run_meets_each_once(world: World) -> None:
    """The ticks fail each requeued job again at once: one met twice would be queued with a second round of runs."""
    world.sql(
        """insert into public.giftcard_jobs (correlation_id, stage, status, attempts, run_no, last_error, payload)
           select 'dead-' || n, 'payment', 'error', 5, 5, 'x', '{"not": "an order"}' from generate_series(1, 10000) n"""
    )
    ended = threading.Event()
    failures: list[BaseException] = []

    def ticks() -> None:
        try:
            while not ended.is_set():
                world.run(limit=100, linger=False)
        except BaseException as failure:
            failures.append(failure)

    ticking = [threading.Thread(target=ticks) for _ in range(2)]
    for thread in ticking:
        thread.start()
    after, matched, requeued = 0, 0, 0
    while True:
        body = {"filter": {"stage": "payment"}, "after": after}
        answer = world.client.post("/api/v1/jobs/requeue", headers=bearer(ADMIN), json=body).json
        matched, requeued, after = matched + answer["matched"], requeued + answer["requeued"], answer["after"]
        if answer["done"]:
            break
    ended.set()
    for thread in ticking:
        thread.join()
    assert failures == []
    assert (matched, requeued) == (10_000, 10_000)
    # A bad payload is permanent: whoever ran, ran once more and no more.
    assert (
        world.value("select count(*) from public.giftcard_jobs where run_no > 6 or status not in ('queued', 'error')")
        == 0
    )
    ran = world.value("select count(*) from public.giftcard_jobs where run_no = 6")
    assert ran == world.value("select count(*) from public.giftcard_job_history")
    assert ran > 0
