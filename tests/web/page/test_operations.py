"""Operations on many jobs: preview, reason, progress, stop. A form that is sent twice creates one."""

from typing import Any

import pytest

from tests.support.forms import Page
from tests.support.world import World
from tests.web.page.conftest import Browser

ALL = {"of": "all", "stage": "payment"}


def dead(world: World, count: int, **columns: Any) -> list[int]:
    return world.enqueue("payment", count=count, status="error", finished_at="2026-01-02T00:00:00Z", **columns)


def previewed(browser: Browser, **fields: Any) -> dict[str, Any]:
    """The fields of the form that a preview shows."""
    response = browser.post("/operations/preview", ALL | fields)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = Page(response.text).form("/operations").fields
    return found


def test_a_preview_counts_by_stage_and_changes_nothing(browser: Browser, world: World) -> None:
    dead(world, 3)
    world.add("email", status="error")
    html = browser.post("/operations/preview", {"of": "all", "action": "requeue", "status": "error"}).text
    text = " ".join(Page(html).text.split())
    assert "Requeue 4 jobs?" in text
    assert "payment3" in text
    assert "email1" in text
    assert world.statuses() == {"error": 4}
    assert world.value("select count(*) from giftcard_operations") == 0


def test_an_operation_begins_with_a_reason_and_shows_its_progress(browser: Browser, world: World) -> None:
    dead(world, 3)
    created = browser.post("/operations", previewed(browser, action="requeue") | {"reason": "the vendor is back"})
    page = browser.follow(created)
    assert "0 of 3 processed, 0 changed" in page.text
    assert "The next tick begins with it." in page.text
    assert "the vendor is back" in page.text
    world.drain()
    done = browser.get(created.headers["Location"]).text
    assert "3 of 3 processed, 3 changed" in done
    assert '<progress value="3" max="3">' in done
    assert created.headers["Location"] in Page(browser.get("/operations").text).links


@pytest.mark.parametrize("reason", ["", "   ", "x" * 300, "\x01"])
def test_without_a_good_reason_the_preview_is_shown_again(browser: Browser, world: World, reason: str) -> None:
    dead(world, 1)
    fields = previewed(browser, action="requeue")
    response = browser.post("/operations", fields | {"reason": reason})
    assert response.status_code == 422
    assert 'id="wrong-reason"' in response.text
    again = Page(response.text).form("/operations").fields
    assert again["key"] == fields["key"]
    assert browser.post("/operations", again | {"reason": "now"}).status_code == 303


def test_a_form_that_is_sent_twice_creates_one_operation(browser: Browser, world: World) -> None:
    dead(world, 2)
    fields = previewed(browser, action="requeue") | {"reason": "again"}
    first, second = browser.post("/operations", fields), browser.post("/operations", fields)
    assert first.headers["Location"] == second.headers["Location"]
    assert world.value("select count(*) from giftcard_operations") == 1
    assert previewed(browser, action="requeue")["key"] != fields["key"]


@pytest.mark.parametrize("rate", ["0", "-1", "many", "1e9", "nan"])
def test_a_rate_that_is_none_is_named_beside_its_field(browser: Browser, world: World, rate: str) -> None:
    dead(world, 2)
    fields = previewed(browser, action="requeue_slowly") | {"reason": "carefully"}
    response = browser.post("/operations", fields | {"per_minute": rate})
    assert response.status_code == 422
    assert 'id="wrong-per_minute"' in response.text
    assert browser.post("/operations", fields | {"per_minute": "2.5"}).status_code == 303
    assert world.value("select per_minute from giftcard_operations") == 2.5


def test_it_is_stopped(browser: Browser, world: World) -> None:
    dead(world, 2)
    created = browser.post("/operations", previewed(browser, action="cancel") | {"reason": "a mistake"})
    address = created.headers["Location"]
    form = Page(browser.get(address).text).form(f"{address}/stop")
    after = browser.follow(browser.post(form.action, form.fields))
    assert "Stopped. What it has changed stays." in after.text
    assert f"{address}/stop" not in after.text
    world.drain()
    assert world.statuses() == {"error": 2}
    assert "that has completed" not in browser.follow(browser.post(form.action, form.fields)).text


def test_selected_jobs_keep_their_number(browser: Browser, world: World) -> None:
    ids = dead(world, 3)
    fields = previewed(browser, action="requeue", of="selected", stage="", job=[str(ids[0]), str(ids[2])])
    assert fields["job"] == str(ids[2])  # the last of two fields of this name
    sent = fields | {"job": [str(ids[0]), str(ids[2])], "reason": "these two"}
    page = browser.follow(browser.post("/operations", sent))
    assert "2 selected jobs" in page.text
    assert f"/jobs/{ids[0]}" in Page(page.text).links
    world.drain()
    assert world.job(ids[1])["status"] == "error"


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "explode"},
        {"action": ""},
        {"action": "requeue", "status": "queued"},
        {"action": "requeue", "stage": "Not a stage"},
        {"action": "requeue", "of": "selected", "job": "x"},
        {"action": "requeue", "of": "selected", "job": "-1"},
        {"action": "cancel", "created_after": "yesterday"},
    ],
)
def test_what_no_form_of_ours_sends_is_refused_in_words(browser: Browser, world: World, fields: dict[str, str]) -> None:
    dead(world, 1)
    for address, more in (("/operations/preview", {}), ("/operations", {"key": "k", "reason": "r"})):
        response = browser.post(address, {"of": "all"} | fields | more)
        assert response.status_code in (400, 422), fields
        assert 'class="verdict error"' in response.text
    assert world.value("select count(*) from giftcard_operations") == 0


def test_a_form_without_a_selected_job_leads_back_to_its_list(browser: Browser) -> None:
    sent = {"of": "selected", "action": "requeue", "back": "/jobs?status=error"}
    html = browser.post("/operations/preview", sent).text
    assert '<a href="/jobs?status=error">Back</a>' in html
    html = browser.post("/operations/preview", sent | {"back": "//evil.example"}).text
    assert '<a href="/">Back to the first screen</a>' in html


def test_a_count_that_stops_is_marked(browser: Browser, world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, finished_at)"
        " select 'flow-' || n, 'payment', 'error', now() from generate_series(1, 10001) n"
    )
    preview = browser.post("/operations/preview", ALL | {"action": "requeue"})
    assert "Requeue more than 10,000 jobs?" in preview.text
    assert "The count stops at 10,000." in preview.text
    fields = Page(preview.text).form("/operations").fields | {"reason": "all of them"}
    page = browser.follow(browser.post("/operations", fields))
    assert "0 of 10,000+ processed" in page.text
    assert "<progress>" in page.text


def test_a_list_has_pages_and_a_filter(browser: Browser, world: World) -> None:
    dead(world, 1)
    for number in range(51):
        browser.post("/operations", previewed(browser, action="cancel") | {"reason": f"number {number}"})
    first = Page(browser.get("/operations?state=running").text)
    (older,) = (link for link in first.links if "older" in link)
    assert "number 50" in first.text
    assert "number 0" not in first.text
    assert "number 0" in browser.get(older).text
    assert browser.get("/operations?state=").headers["Location"] == "/operations"
    assert browser.get("/operations?state=odd").status_code == 422
    assert browser.get("/operations/9999").status_code == 404
