"""The story of a job: why it does not run, its runs, its flow, its data, and what may be done with it."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from lib.job import Complete, Job
from tests.support.forms import Page
from tests.support.world import ADMIN, World, bearer
from tests.web.page.conftest import Browser

PAYLOAD = {"customer": {"given_name": "Kate", "email": "kate@example.com"}, "note": "4111 1111 1111 1111"}
WHY = {"reason": "the cause is corrected"}
DEAD = {"status": "error", "attempts": 8, "run_no": 8, "last_error": "TransientError: HTTP 503 from pay.example.com"}
FRAMES = [
    {"file": "lib/jobs/effects.py", "line": 88, "function": "once"},
    {"file": "shop/pay.py", "line": 12, "function": "charge", "own": True, "raised": "TransientError"},
]


def a_dead_job(world: World, **columns: Any) -> int:
    return world.add("payment", PAYLOAD, **DEAD | {"finished_at": "2026-01-02T00:00:00Z"} | columns)


def add_run(world: World, job_id: int, run_no: int, **columns: Any) -> None:
    row = {
        "result": "FAILED",
        "scheduled_at": f"2026-01-01T00:00:{run_no:02}Z",
        "started_at": f"2026-01-01T00:00:{run_no:02}.250Z",
        "finished_at": f"2026-01-01T00:00:{run_no:02}.660Z",
        "error": f"TransientError: number {run_no}",
        "detail": Jsonb({"status": 503}),
        "frames": Jsonb(FRAMES),
    } | columns
    world.sql(
        f"insert into giftcard_job_history (job_id, run_no, attempt, stage, {', '.join(row)})"
        f" values (%s, %s, %s, 'payment'{', %s' * len(row)})",
        *(job_id, run_no, run_no, *row.values()),
    )


def test_a_job_that_does_not_exist_is_not_found(browser: Browser) -> None:
    for address in ("/jobs/7", "/jobs/99999999999999999999"):
        assert browser.get(address).status_code == 404


def test_it_states_why_a_job_is_not_running(browser: Browser, world: World) -> None:
    later = world.add("payment", scheduled_at="2035-01-01T00:00:00Z")
    assert 'due at <time datetime="2035-01-01T00:00:00Z"' in browser.get(f"/jobs/{later}").text
    dead = a_dead_job(world, revive_at="2035-01-01T12:00:00Z")
    html = browser.get(f"/jobs/{dead}").text
    assert 'it revives at <time datetime="2035-01-01T12:00:00Z"' in html
    assert 'Next revival <time datetime="2035-01-01T12:00:00Z"' in html
    world.client.post("/api/v1/stages/payment/pause", json={"by": "kate", "reason": "invoices"}, headers=bearer(ADMIN))
    assert "paused by kate: invoices" in browser.get(f"/jobs/{later}").text


def test_each_run_has_its_error_its_times_and_its_frames_the_newest_first(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world)
    for run_no in (1, 2):
        add_run(world, job_id, run_no)
    add_run(world, job_id, 3, result="SUCCESS", error=None, frames=None)
    html = browser.get(f"/jobs/{job_id}").text
    places = [html.index(f"Run {run_no}</strong>") for run_no in (3, 2, 1)]
    assert places == sorted(places)
    text = " ".join(Page(html).text.split())
    assert "started 250 ms after its time, took 410 ms" in text
    assert "TransientError: number 2" in text
    assert "shop/pay.py:12 in charge raised TransientError" in text
    # The picture: a circle for each run, and a bar of what it waited and took.
    elements = Page(html).elements
    assert [given["class"] for tag, given in elements if tag == "circle"] == ["run success", "run failed", "run failed"]
    assert len([given for tag, given in elements if tag == "rect" and given["class"] == "took"]) == 3


def test_runs_have_pages(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world)
    for run_no in range(1, 31):
        add_run(world, job_id, run_no)
    first = browser.get(f"/jobs/{job_id}")
    (older,) = (link for link in Page(first.text).links if "older" in link)
    second = browser.get(older).text
    assert "Run 11</strong>" in first.text
    assert "Run 10</strong>" not in first.text
    assert "Run 10</strong>" in second
    assert "Run 11</strong>" not in second
    assert browser.get(f"/jobs/{job_id}?older=x").status_code == 422


def test_its_flow_leads_to_the_other_jobs_and_the_order(browser: Browser, world: World) -> None:
    first = world.add("customer_ingest", correlation_id="a/b c", status="completed")
    second = a_dead_job(world, correlation_id="a/b c")
    world.add("email", correlation_id="another")
    links = Page(browser.get(f"/jobs/{second}").text).links
    assert f"/jobs/{first}" in links
    assert "/orders/default/a%2Fb%20c" in links


def test_its_effects_outside_are_shown_without_their_results(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world, correlation_id="order-1")
    world.sql(
        "insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key, started_at, note)"
        " values ('default', 'order-1', 'payment', '', 'charge', 'gc_key', now(), 'ask kate@example.com')"
    )
    html = browser.get(f"/jobs/{job_id}").text
    assert "gc_key" in html
    assert "its outcome is not recorded" in html
    assert "kate@example.com" not in html


def test_personal_data_is_covered_until_it_is_asked_for_with_a_reason(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world)
    html = browser.get(f"/jobs/{job_id}").text
    assert "kate@example.com" not in html
    assert "4111 1111" not in html
    assert ("Kate" in html, "K…" in html) == (False, True)
    form = Page(html).form(f"/jobs/{job_id}/reveal")
    assert browser.post(form.action, form.fields).status_code == 422
    shown = browser.post(form.action, form.fields | {"reason": "the customer asks"})
    assert "kate@example.com" in shown.text
    assert "Kate" in shown.text
    assert shown.headers["Cache-Control"] == "no-store"
    assert "hx-get" not in shown.text  # a poll would cover it
    acts = world.sql("select action, subject, details from giftcard_audit")
    assert acts == [{"action": "reveal", "subject": f"job {job_id}", "details": {"reason": "the customer asks"}}]


@pytest.mark.parametrize(
    ("columns", "action", "sentence", "status"),
    [
        (DEAD, "requeue", "Requeued", "queued"),
        ({"status": "cancelled"}, "requeue", "Requeued", "queued"),
        ({"status": "completed"}, "requeue", "Requeued", "queued"),
        ({}, "cancel", "Cancelled", "cancelled"),
        (DEAD, "cancel", "Cancelled", "cancelled"),
    ],
)
def test_actions_are_forms(
    browser: Browser, world: World, columns: Any, action: str, sentence: str, status: str
) -> None:
    job_id = world.add("payment", **columns)
    form = Page(browser.get(f"/jobs/{job_id}").text).form(f"/jobs/{job_id}/{action}")
    after = browser.follow(browser.post(form.action, form.fields | WHY))
    assert sentence in after.text
    assert world.job(job_id)["status"] == status


def test_an_action_that_came_too_late_is_refused_in_words(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world)
    form = Page(browser.get(f"/jobs/{job_id}").text).form(f"/jobs/{job_id}/requeue")
    browser.post(form.action, form.fields | WHY)
    assert f"job {job_id} is queued already" in browser.follow(browser.post(form.action, form.fields | WHY)).text


def test_a_running_job_is_cancelled_by_request(browser: Browser, make_world: Any) -> None:
    seen = {}

    def handler(job: Job, context: Any) -> Complete:
        form = Page(own.get(f"/jobs/{context.job.id}").text).form(f"/jobs/{context.job.id}/cancel")
        seen["runs"] = "It runs now" in own.get(f"/jobs/{context.job.id}").text
        seen["answer"] = own.follow(own.post(form.action, form.fields | WHY)).text
        return Complete()

    world = make_world(handlers={"slow": handler})
    own = Browser(world)
    own.sign_in()
    world.run_job("slow")
    assert seen["runs"]
    assert "Its run goes on; then it is cancelled." in seen["answer"]


def test_an_archived_job_is_restored(browser: Browser, world: World) -> None:
    job_id = a_dead_job(world)
    world.sql("select public.giftcard_archive_jobs(array[%s::bigint], now())", job_id)
    page = Page(browser.get(f"/jobs/{job_id}").text)
    assert "restore it before anything is done with it" in page.text
    assert not [form for form in page.forms if form.action.endswith(("/requeue", "/cancel"))]
    form = page.form(f"/jobs/{job_id}/restore")
    assert "Restored" in browser.follow(browser.post(form.action, form.fields | WHY)).text
    assert world.job(job_id)["status"] == "error"
