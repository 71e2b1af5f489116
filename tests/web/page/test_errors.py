"""Errors by kind and stage, acted on as a group."""

from urllib.parse import urlsplit

from tests.support.forms import Page
from tests.support.world import World
from tests.web.page.conftest import Browser


def fail(world: World, number: int, **columns: object) -> int:
    error = f"TransientError: HTTP 503 from pay{number}.example.com"
    failed = {"status": "error", "attempts": 3, "last_error": error, "finished_at": f"2026-01-02T00:00:{number:02}Z"}
    return world.add("payment", **failed | columns)


def test_errors_of_one_kind_are_a_group(browser: Browser, world: World) -> None:
    ids = [fail(world, number) for number in range(3)]
    ids.append(fail(world, 7, status="queued", finished_at=None, scheduled_at="2035-01-01T00:00:00Z"))
    world.sql("update giftcard_jobs set revive_at = '2035-01-01T12:00:00Z' where id = %s", ids[1])
    html = browser.get("/errors").text
    assert "TransientError: HTTP 503 from [host]" in html
    assert "3 dead, 1 retrying" in html
    assert 'datetime="2035-01-01T12:00:00Z"' in html
    assert 'datetime="2026-01-02T00:00:00Z"' in html
    page = Page(html)
    (listed,) = (link for link in page.links if link.startswith("/jobs?stage="))
    assert len(Page(browser.get(listed).text).form("/operations/preview").boxes["job"]) == 4
    assert any(f"/jobs/{number}" in page.links for number in ids)


def test_a_group_leads_to_the_preview_of_its_jobs_alone(browser: Browser, world: World) -> None:
    fail(world, 1)
    fail(world, 2)
    fail(world, 3, last_error="PermanentError: no such customer")
    forms = [form for form in Page(browser.get("/errors").text).forms if form.action == "/operations/preview"]
    assert [value for _, value in forms[0].buttons] == ["requeue", "requeue_slowly", "cancel"]
    for action, words in (("requeue", "Requeue 2 jobs?"), ("cancel", "Cancel 2 jobs?")):
        preview = browser.post("/operations/preview", forms[0].fields | {"action": action})
        assert words in preview.text
    created = browser.post("/operations", Page(preview.text).form("/operations").fields | {"reason": "gone"})
    assert urlsplit(created.headers["Location"]).path.startswith("/operations/")
    world.drain()
    assert world.statuses() == {"cancelled": 2, "error": 1}


def test_a_group_of_which_not_all_were_counted_is_marked(browser: Browser, world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " select 'flow-' || n, 'payment', 'error', 'PermanentError: no', now() from generate_series(1, 1001) n"
    )
    assert "there may be more than were counted" in browser.get("/errors").text


def test_filters_are_part_of_the_address(browser: Browser, world: World) -> None:
    fail(world, 1)
    fail(world, 2, tenant_id="acme")
    response = browser.get("/errors?stage=&since=")
    assert (response.status_code, response.headers["Location"]) == (303, "/errors")
    assert "1 dead" in browser.get("/errors?tenant_id=acme").text
    assert "No error matches." in browser.get("/errors?stage=email").text
    assert "No error matches." in browser.get("/errors?since=2035-01-01T00:00").text
    invalid = browser.get("/errors?since=never")
    assert invalid.status_code == 422
    assert "Is not a time" in invalid.text
    form = Page(browser.get("/errors?tenant_id=acme").text).form("/operations/preview")
    assert form.fields["tenant_id"] == "acme"
