"""The list of jobs: filters, pages, and the way to an operation on many of them."""

from urllib.parse import quote, urlencode

import pytest
from werkzeug.datastructures import MultiDict

from tests.support.forms import Page
from tests.support.world import World
from tests.web.page.conftest import Browser


def planted(world: World) -> dict[str, int]:
    """One job of each kind that the filters tell apart, by name."""
    failed = {"status": "error", "attempts": 3, "finished_at": "2026-01-02T00:00:00Z"}
    return {
        "waiting": world.add("email", correlation_id="order-1"),
        "dead": world.add("payment", last_error="TransientError: HTTP 503 from pay.example.com", **failed),
        "refused": world.add("email", last_error="PermanentError: payload: no address", **failed),
        "acme": world.add("email", tenant_id="acme", status="completed", finished_at="2026-01-02T00:00:00Z"),
        "old": world.add("report", status="cancelled", created_at="2025-01-01T00:00:00Z"),
        "circuit": world.add("payment", circuit="payment:shop"),
    }


def listed(html: str) -> list[int]:
    """The jobs of a page, in order."""
    return [int(link.removeprefix("/jobs/")) for link in Page(html).links if link.removeprefix("/jobs/").isdecimal()]


CASES = [
    ({}, ["circuit", "old", "acme", "refused", "dead", "waiting"]),
    ({"status": "error"}, ["refused", "dead"]),
    ({"stage": "email"}, ["acme", "refused", "waiting"]),
    ({"tenant_id": "acme"}, ["acme"]),
    ({"correlation_id": "order-1"}, ["waiting"]),
    ({"circuit": "payment:shop"}, ["circuit"]),
    ({"error": "http 503"}, ["dead"]),
    ({"error_kind": "TransientError: HTTP 503 from [host]"}, ["dead"]),
    ({"created_before": "2025-06-01T00:00"}, ["old"]),
    ({"created_after": "2025-06-01T00:00:00", "status": "cancelled"}, []),
    ({"created_before": "2025-06-01T02:00:00+02:00"}, ["old"]),
]


def test_each_filter_is_part_of_the_address(browser: Browser, world: World) -> None:
    ids = planted(world)
    for query, names in CASES:
        response = browser.get(f"/jobs?{urlencode(query)}")
        assert response.status_code == 200, query
        assert listed(response.text) == [ids[name] for name in names], query
        # The form holds what was asked for, so that it can be changed.
        form = Page(response.text).form("/jobs")
        for name in set(query) & {"tenant_id", "error", "error_kind", "circuit", "correlation_id"}:
            assert form.fields[name] == query[name]


def test_empty_fields_are_left_out_of_the_address(browser: Browser) -> None:
    response = browser.get("/jobs?status=error&stage=&error=+&tenant_id=")
    assert (response.status_code, response.headers["Location"]) == (303, "/jobs?status=error")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("status", "dead", "Must be one of"),
        ("stage", "Payment!", "Must be the name of a stage"),
        ("created_after", "yesterday", "Is not a time"),
        ("created_before", "2026-02-31T00:00", "Is no time of any calendar"),
        ("tenant_id", "x" * 201, "200 characters"),
        ("error", "\x00", "control character"),
        ("older", "first", "number"),
        ("limit", "0", "at least 1"),
    ],
)
def test_an_invalid_filter_is_named_beside_its_field(browser: Browser, field: str, value: str, sentence: str) -> None:
    response = browser.get(f"/jobs?{field}={quote(value)}")
    assert response.status_code == 422
    assert sentence.lower() in response.text.lower()
    if field in ("stage", "created_after", "tenant_id", "error"):
        named = [given for _, given in Page(response.text).elements if given.get("aria-invalid")]
        assert [(given["name"], given["aria-describedby"]) for given in named] == [(field, f"wrong-{field}")]


def test_pages_lead_to_older_and_newer_jobs_with_the_same_filters(browser: Browser, world: World) -> None:
    ids = world.enqueue("email", count=120)
    first = browser.get("/jobs?stage=email")
    assert listed(first.text) == ids[:-51:-1]
    (older,) = (link for link in Page(first.text).links if "older" in link)
    second = browser.get(older)
    assert listed(second.text) == ids[-51:-101:-1]
    (newer,) = (link for link in Page(second.text).links if "newer" in link)
    assert "stage=email" in newer
    assert listed(browser.get(newer).text) == listed(first.text)
    (last,) = (link for link in Page(second.text).links if "older" in link)
    assert "older=" not in "".join(Page(browser.get(last).text).links)


@pytest.mark.parametrize(
    ("status", "actions"),
    [
        ("", ["requeue", "requeue_slowly", "cancel"]),
        ("error", ["requeue", "requeue_slowly", "cancel"]),
        ("cancelled", ["requeue", "requeue_slowly"]),
        ("queued", ["cancel"]),
        ("completed", []),
    ],
)
def test_only_actions_that_fit_are_offered(browser: Browser, world: World, status: str, actions: list[str]) -> None:
    planted(world)
    page = Page(browser.get(f"/jobs?status={status}" if status else "/jobs").text)
    assert [value for _, value in page.form("/operations/preview").buttons] == actions


def test_a_selection_leads_to_a_preview_of_these_jobs(browser: Browser, world: World) -> None:
    ids = planted(world)
    form = Page(browser.get("/jobs?status=error").text).form("/operations/preview")
    assert form.boxes["job"] == [str(ids["refused"]), str(ids["dead"])]
    sent = MultiDict([*form.fields.items(), ("job", str(ids["dead"])), ("action", "requeue")])
    preview = browser.post("/operations/preview", sent)
    assert preview.status_code == 200
    assert "Requeue 1 job?" in preview.text
    assert Page(preview.text).form("/operations").fields["job"] == str(ids["dead"])


def test_all_that_match_are_those_of_the_filter(browser: Browser, world: World) -> None:
    planted(world)
    form = Page(browser.get("/jobs?stage=email").text).form("/operations/preview")
    preview = browser.post("/operations/preview", form.fields | {"of": "all", "action": "cancel"})
    assert "Cancel 2 jobs?" in preview.text
    assert Page(preview.text).form("/operations").fields["stage"] == "email"


def test_without_a_selection_nothing_is_previewed(browser: Browser, world: World) -> None:
    planted(world)
    form = Page(browser.get("/jobs").text).form("/operations/preview")
    response = browser.post("/operations/preview", form.fields | {"action": "cancel"})
    assert response.status_code == 422
    assert "select jobs" in response.text
