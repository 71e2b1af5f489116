"""Jobs, errors and operations in a browser: a payload is corrected, a kind of error requeued, and axe finds nothing."""

import json
from typing import Any

from tests.browser.conftest import axe_findings
from tests.browser.site import Site
from tests.support.world import an_order

BROKEN = an_order(customer={"email": "kate(at)example.com"})
DEAD = {"status": "error", "attempts": 1, "run_no": 1, "finished_at": "2026-01-02T00:00:00Z"}
WIDTHS = (320, 390, 1280, 2560)


def plant(site: Site) -> int:
    """A job whose payload is refused, two dead letters of one kind, and a job that waits; the first one's number."""
    world = site.world
    first = world.add("customer_ingest", BROKEN)
    world.drain()
    for number in (1, 2):
        world.add("payment", last_error=f"TransientError: HTTP 503 from pay{number}.example.com", **DEAD)
    world.add("email", scheduled_at="2035-01-01T00:00:00Z")
    world.add("email", tenant_id="a" * 200, correlation_id="w" * 200, dedup_key="w" * 200, last_error="w" * 400, **DEAD)
    return first


def test_a_refused_payload_is_found_read_corrected_and_requeued(site: Site) -> None:
    job_id = plant(site)
    site.sign_in().open("/errors")
    site.press(f"job {job_id}")
    site.wait_for_text("customer.email")
    site.wait_for_text("kate(at)example.com")  # no address, so it is not covered
    site.press("Correct the payload")
    site.wait_for_text("Payload (JSON)")
    text = site.find("textarea").get_attribute("value")
    assert json.loads(text) == BROKEN
    site.type("reason", "a typing error")
    site.press("Requeue with this payload")
    site.wait_for_text("customer.email is not a valid e-mail address")
    site.type("payload", json.dumps(an_order()))
    site.press("Requeue with this payload")
    site.wait_for_text("Requeued with the corrected payload")
    site.world.run(only_job_id=job_id)
    site.wait_for_text("Completed at")  # by itself: the page polls


def test_a_kind_of_error_is_requeued_as_a_group(site: Site) -> None:
    plant(site)
    site.sign_in().open("/jobs?status=error&stage=payment")
    for box in site.all("input[name=job]"):
        box.click()
    assert "2 selected" in site.text
    site.press("Requeue")
    site.wait_for_text("Requeue 2 jobs?")
    site.type("reason", "the vendor is back")
    site.press("Requeue 2 jobs")
    site.wait_for_text("0 of 2 processed")
    site.world.run()
    site.wait_for_text("2 of 2 processed, 2 changed")


def test_an_answer_that_comes_too_late_takes_no_selection_away(site: Site) -> None:
    plant(site)
    site.sign_in().open("/jobs?status=error&stage=payment")
    site.world.add("payment", {}, status="error", last_error="TransientError: the newest")
    site.browser.execute_script(
        "document.addEventListener('htmx:before:swap', () => { window.answered = true; });"
        "htmx.trigger(document.getElementById('main'), 'poll'); document.querySelector('input[name=job]').click();"
    )
    site.wait(lambda: site.browser.execute_script("return window.answered"), "answer to the poll")
    assert "1 selected" in site.text
    assert "the newest" not in site.text
    site.find("input[name=job]:checked").click()
    site.wait_for_text("the newest")


def test_no_view_is_scrolled_sideways_and_axe_finds_nothing(site: Site, axe: str) -> None:
    job_id = plant(site)
    site.sign_in()
    views: list[Any] = ["/jobs", "/jobs?status=nope", "/errors", "/operations", f"/jobs/{job_id}"]
    views += [f"/jobs/{job_id}/payload", f"/jobs/{job_id + 3}", "/jobs/5"]
    site.open("/jobs?stage=payment")
    site.find("input[value=all]").click()
    site.press("Requeue slowly")
    site.wait_for_text("Requeue 2 jobs slowly?")
    assert axe_findings(site, axe) == [], "the preview"
    site.type("reason", "carefully")
    site.press("Requeue 2 jobs slowly")
    site.wait_for_text("0 of 2 processed")
    views.append("/operations/1")
    wrong = []
    for view in views:
        wrong += site.open(view).too_wide(WIDTHS)
        site.width(1280)
        wrong += [f"{view}: {finding}" for finding in axe_findings(site, axe, schemes=("light", "dark"))]
    assert wrong == []
