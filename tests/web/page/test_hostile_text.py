"""Whatever text a job holds, in any of its columns, pages show it as text."""

import re
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.forms import Page
from tests.support.world import World
from tests.web.page.conftest import Browser

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`</title></textarea></details>{{ 7*7 }}&lt;"
ODD = "\u202eRTL\u2066 🎁𝒦 \x01\x1b[31m\x7f\x85\u2028 مرحبا"
LONG = "w" * 8_000
TEXTS = {"markup": MARKUP, "odd": ODD, "long": LONG}
# The stage and the circuit of a queued job must fit each other; all others are free.
COLUMNS = ("tenant_id", "correlation_id", "stage", "dedup_key", "trigger_type", "lock_owner", "last_error")


def plant(world: World, text: str) -> int:
    """A dead letter with this text in every column that holds any, and in its run, its effect and an operation."""
    own = text if len(text) < 500 else text[:500]  # an index holds no more of what identifies a job
    row = dict.fromkeys(COLUMNS, text) | dict.fromkeys(("tenant_id", "correlation_id", "stage", "dedup_key"), own)
    job_id = world.add(
        **row,
        payload={text: text, "list": [text, {"inner": text}]},
        context={"note": text},
        status="error",
        finished_at="2026-01-02T00:00:00Z",
    )
    frame = {"file": text, "line": 1, "function": text, "raised": text, "own": True}
    world.sql(
        "insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
        " finished_at, lock_owner, error, detail, frames) values (%s, 1, 1, %s, 'FAILED', now(), now(), now(),"
        " %s, %s, %s, %s)",
        *(job_id, text, text, text, Jsonb({text: text}), Jsonb([frame])),
    )
    world.sql(
        "insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key, note)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        *(own, own, own, own, own, own, text),
    )
    world.sql(
        "insert into giftcard_operations (action, filter, reason, created_by, state, total, capped, until_id,"
        " stopped_because, created_at) values ('cancel', %s, %s, %s, 'stopped', 1, false, 1, %s, now())",
        *(Jsonb({"stage": text, "error": text, "created_after": text}), text, text, text),
    )
    return job_id


def pages(browser: Browser, job_id: int) -> dict[str, Any]:
    """Every page that shows the job or the operation, by name."""
    found = {address: browser.get(address) for address in ("/jobs", "/errors", "/operations", "/operations/1")}
    found |= {"job": browser.get(f"/jobs/{job_id}"), "payload": browser.get(f"/jobs/{job_id}/payload")}
    found["reveal"] = browser.post(f"/jobs/{job_id}/reveal", {"reason": "a test"})
    group = Page(found["/errors"].text).form("/operations/preview")
    found["preview"] = browser.post("/operations/preview", group.fields | {"action": "cancel"})
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_shown_as_text(browser: Browser, world: World, name: str) -> None:
    job_id = plant(world, TEXTS[name])
    for page, response in pages(browser, job_id).items():
        # A stage's name that no form of ours can send is refused in words.
        assert response.status_code == (200 if page != "preview" else 422), page
        elements = Page(response.text).elements
        sources = [given.get("src") or "" for tag, given in elements if tag == "script"]
        assert all(source.startswith("/static/") for source in sources), page
        assert {tag for tag, _ in elements}.isdisjoint({"img", "iframe", "b"}), page
        assert not [given for _, given in elements if any(key.startswith("on") for key in given)], page
        # Control characters that a terminal or a browser would obey are visible.
        assert not re.search("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]", Page(response.text).text), page


def test_markup_stands_as_it_was_written(browser: Browser, world: World) -> None:
    job_id = plant(world, MARKUP)
    for page, response in pages(browser, job_id).items():
        if page != "preview":
            assert "<script>alert(1)</script>" in Page(response.text).text, page
            assert "{{ 7*7 }}" in Page(response.text).text, page


def test_text_of_another_direction_ends_with_it(browser: Browser, world: World) -> None:
    job_id = plant(world, ODD)
    for page, response in pages(browser, job_id).items():
        # Within <bdi> an isolate that is not closed would let the override go on behind it.
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", Page(response.text).text), page
        assert page == "preview" or "<bdi>" in response.text, page


def test_a_filter_with_such_text_is_shown_as_text(browser: Browser) -> None:
    for field in ("error", "tenant_id", "correlation_id", "stage", "older"):
        for text in TEXTS.values():
            response = browser._client.get("/jobs", query_string={field: text})
            assert response.status_code in (200, 422)
            assert "<script>alert" not in response.text
