"""What the verdict says of each kind of trouble: what happened, to what, what happens next, what to do."""

from typing import Any

import pytest

from lib.monitoring.verdict import Action, away, verdict
from tests.support.overviews import (
    a_circuit,
    a_stage,
    a_tick,
    an_overview,
    before,
)

QUEUED = [a_stage("payment", waiting=211, retrying=1), a_stage("email")]
DOCTOR = Action("Open the doctor", "open", "/doctor")
TICK = Action("Run a tick now", "tick", "")
SILENT = {"silent": True, "silence_began": before(minutes=7, seconds=10), "last_good": a_tick()}
DIFFERENCE = {
    "kind": "paid_without_card",
    "tenant_id": "default",
    "correlation_id": "A-1",
    "reference": "pay-1",
    "since": before(hours=1),
    "action": "Requeue the job that failed, or refund what is left.",
}

CASES: dict[str, tuple[dict[str, Any], str, str, Action | None]] = {
    "nothing is due": (
        {},
        "All is well: the last tick ended {2026-11-29T14:05:02Z} and ran 12 jobs; no job is due.",
        "Ticks go on once a minute.",
        None,
    ),
    "a job is due, and one job ran": (
        {
            "oldest_due": {"since": before(seconds=70), "reason": "behind"},
            "ticks": {"last_good": a_tick(started=1)},
        },
        "All is well: the last tick ended {2026-11-29T14:05:02Z} and ran 1 job; nothing waits longer than 2 minutes.",
        "Ticks go on once a minute.",
        None,
    ),
    "schema and code do not fit": (
        {
            "checks": [
                {
                    "check": "schema",
                    "level": "red",
                    "message": "the schema is at 3 and supports code from 2 on, this code is at 1: no job is claimed",
                    "fix": "deploy newer code",
                }
            ]
        },
        "The schema is at 3 and supports code from 2 on, this code is at 1: no job is claimed.",
        "Jobs wait and lose no attempt until this is done: deploy newer code.",
        DOCTOR,
    ),
    "no tick has ever run": (
        {"ticks": {"last_good": None, "newest": None}, "stages": [a_stage("payment", waiting=1)]},
        "No tick has run yet: no clock calls.",
        "1 job waits and loses no attempt; the first tick starts what is due. Let a clock call once a minute.",
        TICK,
    ),
    "a preview runs no tick": (
        {"ticks": {"last_good": None, "newest": None}, "runs_ticks": False},
        "This preview deployment runs no tick.",
        "No job waits. If it is to run ticks, set GIFTCARD_ALLOW_PREVIEW=1 and deploy again.",
        DOCTOR,
    ),
    "the clock is silent": (
        {"ticks": SILENT | {"newest": a_tick(started_at=before(minutes=8))}, "stages": QUEUED},
        "No tick has begun since {2026-11-29T13:57:10Z}: the clock does not call.",
        "212 jobs wait and lose no attempt; the next tick starts what is due. See the doctor.",
        TICK,
    ),
    "the newest tick failed": (
        {
            "ticks": SILENT
            | {"newest": a_tick(stopped_because="failed", error="Unavailable: the disk is full. kate@example.com")},
            "stages": QUEUED,
        },
        "No tick has ended well since {2026-11-29T13:58:00Z}: the newest failed: "
        "Unavailable: the disk is full. [email].",
        "212 jobs wait and lose no attempt. The clock calls again within a minute; the function's log has the reason.",
        DOCTOR,
    ),
    "ticks are killed": (
        {"ticks": SILENT | {"newest": a_tick(ended_at=None)}},
        "No tick has ended well since {2026-11-29T13:58:00Z}: they begin, and are killed before their end.",
        "No job waits. The clock calls again within a minute; check memory and duration in the function's log.",
        DOCTOR,
    ),
    "everything is paused by a person": (
        {
            "all_paused": {"by": "kate", "reason": "the provider migrates.", "since": before(minutes=5, seconds=10)},
            "stages": [a_stage("payment", waiting=1000)],
        },
        "Everything is paused by kate since {2026-11-29T14:00:00Z}: the provider migrates.",
        "1,000 or more jobs wait and lose no attempt. Nothing starts until you resume it.",
        Action("Resume everything", "resume", "*"),
    ),
    "everything is paused without a reason, by an address": (
        {"all_paused": {"by": "kate@example.com", "reason": None, "since": None}},
        "Everything is paused by [email].",
        "No job waits. Nothing starts until you resume it.",
        Action("Resume everything", "resume", "*"),
    ),
    "one difference": (
        {"differences": {"count": 1, "capped": False, "lines": [DIFFERENCE]}},
        "Money and cards do not match: order A-1 was paid and has no card since {2026-11-29T13:05:10Z}.",
        "Nothing fixes this by itself. Requeue the job that failed, or refund what is left.",
        Action("See what to do", "open", "/reconciliation"),
    ),
    "many differences": (
        {"differences": {"count": 1000, "capped": True, "lines": [DIFFERENCE | {"kind": "paid_twice"}]}},
        "Money and cards do not match in 1,000 or more places: the oldest: "
        "order A-1 was paid twice since {2026-11-29T13:05:10Z}.",
        "Nothing fixes this by itself. Requeue the job that failed, or refund what is left.",
        Action("See what to do", "open", "/reconciliation"),
    ),
    "a circuit is open": (
        {"circuits": [a_circuit()]},
        "payment is down since {2026-11-29T14:02:00Z}: payment service answered 503 three times in a row.",
        "212 orders wait and lose no attempt; one is tried at {2026-11-29T14:05:42Z}.",
        Action("Close the circuit", "reset_circuit", "payment"),
    ),
    "a circuit is half-open, with one job": (
        {"circuits": [a_circuit("http_call:shop", state="half_open", failures=12, waiting=1, open_until=None)]},
        "http_call:shop is tried again after it was down since {2026-11-29T14:02:00Z}: "
        "payment service answered 503 12 times in a row.",
        "1 job waits and loses no attempt; it is tried within a minute.",
        Action("Close the circuit", "reset_circuit", "http_call:shop"),
    ),
    "a circuit is half-open, with no job": (
        {"circuits": [a_circuit("payment", state="half_open", failures=3, waiting=0, open_until=None)]},
        "payment is tried again after it was down since {2026-11-29T14:02:00Z}: "
        "payment service answered 503 three times in a row.",
        "No order waits; the next one that comes tries it.",
        Action("Close the circuit", "reset_circuit", "payment"),
    ),
    "a webhook endpoint does not respond": (
        {"circuits": [a_circuit("webhook:7", failures=2, waiting=0)]},
        "Webhook endpoint 7 is down since {2026-11-29T14:02:00Z}: payment service answered 503 twice in a row.",
        "No webhook waits; the next one that comes tries it from {2026-11-29T14:05:42Z} on.",
        Action("Close the circuit", "reset_circuit", "webhook:7"),
    ),
    "a webhook endpoint is off": (
        {"endpoints_off": {"count": 1, "capped": False, "id": 7, "since": before(hours=1), "reason": "HTTP 410"}},
        "Webhook endpoint 7 is off since {2026-11-29T13:05:10Z}: HTTP 410.",
        "No events are sent there until you turn it on again; those of that time are not sent later.",
        Action("Open the endpoints", "open", "/webhooks"),
    ),
    "webhook endpoints are off": (
        {"endpoints_off": {"count": 3, "capped": False, "id": 7, "since": before(hours=1), "reason": "HTTP 410"}},
        "3 webhook endpoints are off, the last of them endpoint 7 since {2026-11-29T13:05:10Z}: HTTP 410.",
        "No events are sent there until you turn them on again; those of that time are not sent later.",
        Action("Open the endpoints", "open", "/webhooks"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_trouble_has_its_sentence(case: str) -> None:
    changes, sentence, then, action = CASES[case]
    found = verdict(an_overview(**changes), paused_by_setting=False)
    assert (found.sentence, found.next, found.action, found.others) == (sentence, then, action, ())
    assert (found.level == "ok") == sentence.startswith("All is well")


def test_pause_by_the_setting_explains_why_no_tick_runs() -> None:
    silent = an_overview(ticks=SILENT | {"newest": a_tick(started_at=before(hours=8))}, stages=QUEUED)
    found = verdict(silent, paused_by_setting=True)
    assert found.sentence == "Everything is paused by the setting GIFTCARD_PAUSED."
    assert found.next == "212 jobs wait and lose no attempt. Nothing starts until you unset it and deploy again."
    assert found.others == ()


def test_database_that_cannot_be_asked_has_a_verdict_too() -> None:
    found = away("database postgres on db.example.com: connection refused", since_time=before(seconds=10))
    assert found.level == "error"
    assert found.sentence == (
        "The database cannot be asked since {2026-11-29T14:05:00Z}: "
        "database postgres on db.example.com: connection refused."
    )


def test_probe_of_a_paused_stage_waits_for_its_resume() -> None:
    stages = [a_stage("payment", paused={"by": "kate", "reason": None, "since": None})]
    found = verdict(an_overview(circuits=[a_circuit(waiting=1000)], stages=stages), paused_by_setting=False)
    assert found.next == "1,000 or more orders wait and lose no attempt; one is tried once payment is resumed."
    assert found.others == ("payment is paused by kate.",)
