"""What people who write stages of their own test them with."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from dev.testing.labs import Lab
from dev.testing.vendors import Vendor, a_vendor
from lib.errors import TransientError
from lib.job import Complete, NextJob, Outcome, Snooze
from lib.jobs.registry import Registry
from tests.support.world import a_stage

MakeLab = Callable[..., Lab]

KATE = {"customer": {"given_name": "Kate", "email": "kate@example.com"}, "amount": {"amount": 2500, "currency": "USD"}}


def with_stage(lab: Lab, handler: Callable[..., Outcome], **options: Any) -> Lab:
    lab.registry = Registry({"own": a_stage("own", handler, **options), "next": a_stage("next", done)})
    return lab


def done(payload: Any, context: Any) -> Outcome:
    return Complete()


# The lab


def test_job_is_run_by_a_real_tick_and_its_row_is_answered(lab: Lab) -> None:
    job = with_stage(lab, done).run_job("own", {"a": 1}, correlation_id="f", tenant_id="acme")
    assert (job["status"], job["run_no"], job["payload"]) == ("completed", 1, {"a": 1})
    assert (job["tenant_id"], job["correlation_id"]) == ("acme", "f")
    assert lab.value("select started from giftcard_ticks") == 1


def test_failure_is_told_by_the_row(lab: Lab) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise TransientError("not now")

    job = with_stage(lab, fails).run_job("own")
    assert (job["status"], job["last_error"]) == ("queued", "TransientError: not now")


def test_job_runs_although_it_is_not_due_and_no_other_does(lab: Lab) -> None:
    other = with_stage(lab, done).add("own")
    assert lab.run_job("own", scheduled_at="2099-01-01T00:00:00Z")["status"] == "completed"
    assert lab.job(other)["status"] == "queued"


@pytest.mark.parametrize(
    ("stage", "why"),
    [("nobody", "this code knows no stage nobody"), ("email", "stage email lacks the setting SMTP_URL")],
)
def test_job_that_does_not_start_says_why(make_lab: MakeLab, stage: str, why: str) -> None:
    lab = make_lab(GIFTCARD_MAIL_DIR=None)
    with pytest.raises(AssertionError, match=f"job 1 of stage {stage} did not start: {why}"):
        lab.run_job(stage, KATE)


def test_drain_runs_what_is_due_and_what_follows(lab: Lab) -> None:
    def goes_on(payload: Any, context: Any) -> Outcome:
        return Complete(next=(NextJob(stage="next"),))

    with_stage(lab, goes_on)
    later = lab.add("own", scheduled_at="2099-01-01T00:00:00Z")
    for _ in range(12):
        lab.add("own")
    assert lab.drain() == 24
    assert lab.drain() == 0
    assert lab.job(later)["status"] == "queued"


def test_job_that_is_always_due_does_not_drain_for_ever(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dev.testing.labs._MAX_TICKS", 3)
    with_stage(lab, lambda payload, context: Snooze(delay=0, waiting_for="nothing")).add("own")
    with pytest.raises(AssertionError, match="still due after 3 ticks"):
        lab.drain()


def test_time_passes_when_it_is_told_to(lab: Lab) -> None:
    with_stage(lab, lambda payload, context: Snooze(delay=3600, waiting_for="noon"))
    job = lab.run_job("own")
    lab.move(3599)
    assert lab.drain() == 0
    assert 0 < lab.move_to(lab.job(job["id"])["scheduled_at"]) <= 1
    assert lab.drain() == 1


def test_settings_are_variables(make_lab: MakeLab) -> None:
    assert make_lab(GIFTCARD_MAX_ATTEMPTS=2).settings.giftcard_max_attempts == 2
    assert make_lab().settings.giftcard_max_attempts == 5


def test_whole_house_works_in_it(lab: Lab) -> None:
    lab.add("customer_ingest", KATE, correlation_id="order-1")
    assert lab.drain() == 5
    assert lab.store.flow("default", "order-1")["card"]["amount"] == 2500


def test_one_job_is_meant(lab: Lab) -> None:
    with pytest.raises(AssertionError, match="0 jobs match, not one"):
        lab.job()


# The vendor


def test_vendor_answers_by_its_script_and_then_as_usual(vendor: Vendor) -> None:
    vendor.respond(503, (201, {"id": "x"}), (429, None, {"Retry-After": "7"}))
    with httpx.Client(base_url=vendor.url) as client:
        answers = [client.get("/things") for _ in range(4)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (503, {}),
        (201, {"id": "x"}),
        (429, None),
        (200, {}),
    ]
    assert answers[2].headers["Retry-After"] == "7"
    vendor.default = (200, [1])
    assert httpx.get(vendor.url).json() == [1]


def test_vendor_keeps_what_it_was_asked(vendor: Vendor) -> None:
    httpx.post(f"{vendor.url}/things?a=1", json={"n": 1}, headers={"Idempotency-Key": "k"})
    httpx.put(f"{vendor.url}/text", content="plain")
    first, second = vendor.requests
    assert (first.method, first.path, first.body) == ("POST", "/things?a=1", {"n": 1})
    assert first.headers["idempotency-key"] == "k"
    assert (second.method, second.body) == ("PUT", "plain")


def test_vendor_drops_the_connection(vendor: Vendor) -> None:
    vendor.respond("cut")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(vendor.url)
    assert len(vendor.requests) == 1
    assert httpx.get(vendor.url).status_code == 200


def test_two_vendors_are_two(vendor: Vendor) -> None:
    with a_vendor() as other:
        httpx.get(other.url)
        assert (len(vendor.requests), len(other.requests)) == (0, 1)
