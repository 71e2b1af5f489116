"""Schedules on the page: the list, one with its occurrences, and what its buttons do."""

from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token


def create(world: World, **fields: Any) -> int:
    body = {"name": "nightly", "schedule": "30 2 * * *", "stage": "report", "payload": {}} | fields
    response = world.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    number: int = response.json["id"]
    return number


def row(world: World, schedule_id: int) -> dict[str, Any]:
    return world.sql("select * from giftcard_schedules where id = %s", schedule_id)[0]


def test_the_list_has_next_times_last_results_and_states(world: World, browser: Browser) -> None:
    assert "There are no schedules yet" in browser.get("/schedules").text
    one, two = create(world), create(world, name="weekly", tenant_id="acme")
    world.client.post(f"/api/v1/schedules/{one}/run", headers=bearer(ADMIN))
    world.tick()
    world.client.post(f"/api/v1/schedules/{two}/pause", json={"by": "kim", "reason": "moving"}, headers=bearer(ADMIN))
    text = Page(browser.get("/schedules").text).text
    for word in ("nightly", "30 2 * * *", "completed", "weekly", "acme", "paused", "moving", "has not run"):
        assert word in text, word


def test_its_filters_are_in_the_address(world: World, browser: Browser) -> None:
    create(world)
    create(world, name="weekly", tenant_id="acme")
    page = Page(browser.get("/schedules?status=active&name=weekly&tenant_id=").text)
    assert "weekly" in page.text
    assert "nightly" not in page.text
    assert "No schedule matches" in browser.get("/schedules?status=paused").text
    response = browser.get("/schedules?status=odd")
    assert response.status_code == 422
    assert "status" in response.text


def test_older_ones_are_on_the_next_page(world: World, browser: Browser) -> None:
    for number in range(3):
        create(world, name=f"number {number}")
    first = Page(browser.get("/schedules?limit=2").text)
    older = next(link for link in first.addresses if "older=" in link)
    assert older.startswith("/schedules?limit=2&older=")
    second = Page(browser.get(older).text)
    assert "number 0" in second.text
    assert "number 2" not in second.text
    assert "/schedules?limit=2" in second.addresses


def test_one_shows_its_next_times_rules_and_occurrences(world: World, browser: Browser) -> None:
    number = create(world, payload={"tenant_id": "kate@example.com"})
    for _ in range(2):
        world.client.post(f"/api/v1/schedules/{number}/run", headers=bearer(ADMIN))
        world.tick()
    html = browser.get(f"/schedules/{number}?limit=1").text
    page = Page(html)
    assert html.count("<time") >= 7
    assert "the next is dropped" in page.text
    assert "kate@example.com" not in html
    jobs = [link for link in page.addresses if link.startswith("/jobs/")]
    older = next(link for link in page.addresses if "older=" in link)
    assert len(jobs) == 1
    assert jobs[0] not in Page(browser.get(older).text).addresses


def test_it_is_paused_with_a_reason_and_resumed(world: World, browser: Browser) -> None:
    number = create(world)
    shown = browser.follow(browser.post(f"/schedules/{number}/pause", {"reason": "the shop moves"}))
    assert "Paused by admin token" in " ".join(Page(shown.text).text.split())
    assert "the shop moves" in shown.text
    assert row(world, number)["paused_by"] == "admin token"
    browser.post(f"/schedules/{number}/resume")
    assert row(world, number)["paused_at"] is None
    audit = world.sql("select action, by from giftcard_audit order by id")
    assert [each["action"] for each in audit[-2:]] == ["pause_schedule", "resume_schedule"]


def test_run_now_enqueues_one(world: World, browser: Browser) -> None:
    number = create(world)
    shown = browser.follow(browser.post(f"/schedules/{number}/run"))
    job = world.job()
    assert f"Job {job['id']} is queued" in shown.text
    assert job["correlation_id"].startswith(f"schedule:{number}:")


def test_delete_leads_to_the_list(world: World, browser: Browser) -> None:
    number = create(world)
    response = browser.post(f"/schedules/{number}/delete")
    assert response.headers["Location"] == "/schedules"
    assert "is deleted" in browser.follow(response).text
    assert browser.get(f"/schedules/{number}").status_code == 404


@pytest.mark.parametrize("verb", ["pause", "resume", "run", "delete"])
@pytest.mark.parametrize("number", [7, 10**20])
def test_of_one_that_is_not_there_it_leads_back(browser: Browser, verb: str, number: int) -> None:
    response = browser.post(f"/schedules/{number}/{verb}", {"reason": "x"})
    assert response.status_code == 303
    assert f"schedule {number} does not exist" in browser.get("/schedules").text


def test_who_only_reads_has_no_buttons(world: World) -> None:
    number = create(world)
    browser = Browser(world)
    browser.sign_in(create_token(world, name="reader", scopes=["jobs:read"]))
    page = Page(browser.get(f"/schedules/{number}").text)
    assert not [link for link in page.addresses if link.startswith(f"/schedules/{number}/")]


def test_a_token_of_one_tenant_sees_its_own(world: World) -> None:
    other, own = create(world), create(world, name="own", tenant_id="acme")
    browser = Browser(world)
    browser.sign_in(create_token(world, name="acme", scopes=["admin"], tenant_id="acme"))
    text = browser.get("/schedules").text
    assert "own" in text
    assert "nightly" not in text
    assert browser.get(f"/schedules/{other}").status_code == 404
    browser.post(f"/schedules/{other}/delete")
    browser.post(f"/schedules/{own}/delete")
    assert [each["id"] for each in world.sql("select id from giftcard_schedules")] == [other]
