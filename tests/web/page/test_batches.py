"""Batches on the page: a list, the progress of one, its buttons, and the job that names it."""

from typing import Any

from tests.support.forms import Page
from tests.support.world import ADMIN, World, bearer
from tests.web.page.conftest import Browser


def create(world: World, **more: Any) -> int:
    members = [{"stage": "report", "correlation_id": name, "payload": {}} for name in ("a", "b")]
    body = {"name": "reports of May", "jobs": members, "follow_up": {"stage": "report"}} | more
    response = world.client.post("/api/v1/batches", json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    return int(response.json["id"])


def test_it_shows_the_progress_and_leads_to_its_jobs_and_its_follow_up(browser: Browser, world: World) -> None:
    assert "There are no batches yet." in browser.get("/batches").text
    number = create(world)
    page = browser.get(f"/batches/{number}").text
    assert '<progress value="0" max="2">' in page
    (job_id,) = (world.value("select min(id) from giftcard_jobs"),)
    assert f"/batches/{number}" in Page(browser.get(f"/jobs/{job_id}").text).links
    assert f"/jobs/{job_id}" in Page(browser.get(f"/jobs?batch_id={number}").text).links
    world.drain()
    ended = browser.get(f"/batches/{number}").text
    assert '<progress value="2" max="2">' in ended
    assert "It ended with 2 completed, 0 in error and 0 cancelled." in ended
    follow_up = world.value("select follow_up_job_id from giftcard_batches")
    assert f"/jobs/{follow_up}" in Page(ended).links
    listed = Page(browser.get("/batches?state=ended").text)
    assert {f"/batches/{number}", f"/jobs/{follow_up}"} <= set(listed.links)
    assert browser.get("/batches?state=odd").status_code == 422


def test_an_open_one_is_sealed_and_cancelled_with_a_reason(browser: Browser, world: World) -> None:
    number = create(world, open=True)
    page = Page(browser.get(f"/batches/{number}").text)
    sealed = browser.follow(browser.post(f"/batches/{number}/seal", page.form(f"/batches/{number}/seal").fields))
    assert "Sealed: it ends with its jobs." in sealed.text
    form = Page(sealed.text).form(f"/batches/{number}/cancel").fields
    assert "reason" in browser.follow(browser.post(f"/batches/{number}/cancel", form)).text
    operation = browser.post(f"/batches/{number}/cancel", form | {"reason": "wrong file"})
    assert operation.headers["Location"] == "/operations/1"
    world.sql("update giftcard_jobs set scheduled_at = now() + interval '1 day'")
    world.drain()
    assert "0 in error and 2 cancelled" in browser.get(f"/batches/{number}").text


def test_its_dead_letters_are_requeued(browser: Browser, world: World) -> None:
    number = create(world)
    world.sql("update giftcard_jobs set status = 'error', finished_at = now() where batch_id is not null")
    form = Page(browser.get(f"/batches/{number}").text).form(f"/batches/{number}/requeue").fields
    assert browser.post(f"/batches/{number}/requeue", form | {"reason": "back"}).headers["Location"] == "/operations/1"
    assert world.value("select total from giftcard_operations") == 2
