"""The editor of a payload: what the stage refuses stays in the editor, with the reason beside it."""

import json
from typing import Any

import pytest

from tests.support.forms import Page
from tests.support.world import World, an_order
from tests.web.page.conftest import Browser

BROKEN = an_order(customer={"email": "kate(at)example.com", "given_name": "K\u202ete 🎁 <b>"})


@pytest.fixture
def job_id(world: World) -> int:
    return world.add(
        "customer_ingest", BROKEN, status="error", last_error="PermanentError: payload: …", finished_at="2026-01-01"
    )


def the_form(browser: Browser, job_id: int) -> Any:
    form = Page(browser.get(f"/jobs/{job_id}/payload").text).form(f"/jobs/{job_id}/payload")
    form.fields["reason"] = "a typing error"
    return form


def test_it_holds_the_payload_in_clear_and_the_audit_records_that(browser: Browser, world: World, job_id: int) -> None:
    response = browser.get(f"/jobs/{job_id}/payload")
    text = Page(response.text).form(f"/jobs/{job_id}/payload").fields["payload"]
    assert json.loads(text) == BROKEN
    assert "\\u202e" in text  # what is invisible is an escape
    assert "hx-get" not in response.text
    assert response.headers["Cache-Control"] == "no-store"
    acts = world.sql("select action, subject, details from giftcard_audit")
    assert acts == [{"action": "reveal", "subject": f"job {job_id}", "details": {"reason": "to correct the payload"}}]


def test_no_text_of_a_payload_is_taken_for_the_tag_of_the_page(browser: Browser, world: World, job_id: int) -> None:
    payload = json.dumps({"text": "{ptag} <ptag>"})
    world.sql("update giftcard_jobs set payload = %s where id = %s", payload, job_id)
    form = the_form(browser, job_id)
    assert json.loads(form.fields["payload"]) == json.loads(payload)
    assert (
        form.fields["payload"] in Page(browser.post(form.action, form.fields).text).form(form.action).fields["payload"]
    )


def test_a_corrected_payload_is_stored_and_requeued(browser: Browser, world: World, job_id: int) -> None:
    form = the_form(browser, job_id)
    text = form.fields["payload"].replace("(at)", "@")
    after = browser.follow(browser.post(form.action, form.fields | {"payload": text.replace("\n", "\r\n")}))
    assert "Requeued with the corrected payload" in after.text
    job = world.job(job_id)
    assert (job["status"], job["payload"]) == ("queued", json.loads(text))
    (act,) = world.sql("select action, details from giftcard_audit order by id desc limit 1")
    assert (act["action"], act["details"]["reason"]) == ("payload", "a typing error")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (json.dumps(BROKEN), "customer.email"),
        (json.dumps(BROKEN | {"amount": {"amount": "x", "currency": "usd"}}), "amount.currency"),
        (json.dumps(BROKEN | {"extra": 1}), "extra"),
        ('{\n  "customer": {},\n  "amount" 5\n}', "line 3, column 12"),
        ('{"a": 1, "a": 2}', "names this field twice"),
        ("[1]", "it must be an object"),
        ("", "line 1"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("</textarea><script>alert(1)</script>", "not valid JSON"),
    ],
)
def test_what_is_wrong_stands_beside_the_editor_with_the_input(
    browser: Browser, world: World, job_id: int, text: str, sentence: str
) -> None:
    form = the_form(browser, job_id)
    response = browser.post(form.action, form.fields | {"payload": text})
    assert response.status_code == 422
    page = Page(response.text)
    assert sentence in page.text
    sent_again = page.form(form.action).fields
    assert (sent_again["payload"], sent_again["reason"]) == (text, "a typing error")
    assert "<script>alert" not in response.text
    assert world.job(job_id)["status"] == "error"
    # Sent again without a mistake, it is accepted: the form is complete.
    corrected = json.dumps(an_order())
    assert browser.post(form.action, page.form(form.action).fields | {"payload": corrected}).status_code == 303


def test_a_completed_job_needs_force(browser: Browser, world: World) -> None:
    job_id = world.add("customer_ingest", an_order(), status="completed", finished_at="2026-01-01")
    form = the_form(browser, job_id)
    refused = browser.post(form.action, form.fields)
    assert refused.status_code == 422
    assert "use force to run it again" in refused.text
    assert Page(refused.text).form(form.action).boxes == {"force": ["true"]}
    assert browser.post(form.action, form.fields | {"force": "true"}).status_code == 303
    assert world.job(job_id)["status"] == "queued"


@pytest.mark.parametrize("columns", [{}, {"status": "running"}, {"payload": {"n": "x" * 70_000}, "status": "error"}])
def test_what_cannot_be_sent_has_no_form(browser: Browser, world: World, columns: dict[str, Any]) -> None:
    payload = columns.pop("payload", None)
    job_id = world.add("customer_ingest", payload, **columns)
    page = Page(browser.get(f"/jobs/{job_id}/payload").text)
    assert not [form for form in page.forms if form.action.endswith("/payload")]
    assert "cancel it first" in page.text or "too many for a form" in page.text


def test_a_stage_that_this_code_does_not_know_checks_nothing(browser: Browser, world: World) -> None:
    job_id = world.add("former", {"a": 1}, status="error")
    form = the_form(browser, job_id)
    response = browser.post(form.action, form.fields)
    assert response.status_code == 422
    assert "there is no stage former" in response.text


def test_a_payload_that_was_corrected_elsewhere_meanwhile_is_refused(
    browser: Browser, world: World, job_id: int
) -> None:
    form = the_form(browser, job_id)
    world.requeue(job_id)
    response = browser.post(form.action, form.fields | {"payload": json.dumps(an_order())})
    assert response.status_code == 422
    assert "is queued already" in response.text
