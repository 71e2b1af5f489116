"""What the verdict tells of work that does not go on: runs, stages, jobs, dead letters, late starts."""

from typing import Any

import pytest

from lib.monitoring.verdict import Action, services, verdict, work
from lib.monitoring.verdict.facts import Facts
from tests.support.overviews import FLOW, a_circuit, a_group, a_minute, a_stage, an_overview, before

DOCTOR = Action("Open the doctor", "open", "/doctor")
TICK = Action("Run a tick now", "tick", "")

CASES: dict[str, tuple[dict[str, Any], str, str, Action | None]] = {
    "a killed run": (
        {"killed": {"count": 1, "capped": False, "since": before(minutes=5), "job_id": 9, "stage": "payment"}},
        "1 run was killed and not taken over since {2026-11-29T14:00:10Z} (job 9 of payment).",
        "The next tick takes it over, within a minute.",
        TICK,
    ),
    "killed runs that ticks pass over": (
        {
            "killed": {
                "count": 2,
                "capped": False,
                "since": before(minutes=5),
                "job_id": 9,
                "stage": "payment",
                "until": before(minutes=-10),
            }
        },
        "2 runs were killed and not taken over since {2026-11-29T14:00:10Z} (job 9 of payment).",
        "Ticks fail on it and pass over it until {2026-11-29T14:15:10Z}: open the job to see why.",
        TICK,
    ),
    "a stage is paused": (
        {"stages": [a_stage("email", waiting=2, paused={"by": "kate", "reason": "typo", "since": before(minutes=5)})]},
        "email is paused by kate since {2026-11-29T14:00:10Z}: typo.",
        "2 orders wait and lose no attempt. None starts until you resume email.",
        Action("Resume email", "resume", "email"),
    ),
    "a stage lacks a setting": (
        {"stages": [a_stage("email", retrying=1, availability="parked")], "missing": {"email": "SMTP_URL"}},
        "email cannot run: the setting SMTP_URL is missing.",
        "1 order waits and loses no attempt. It starts once you set it and deploy again.",
        DOCTOR,
    ),
    "a stage cannot be loaded": (
        {
            "stages": [a_stage("points", waiting=5, availability="parked")],
            "missing": {"points": "NameError: name 'rate' is not defined"},
        },
        "points cannot run: NameError: name 'rate' is not defined.",
        "5 jobs wait and lose no attempt. They start once it is corrected and deployed again.",
        DOCTOR,
    ),
    "a stage is unknown": (
        {"stages": [a_stage("points", waiting=5, availability="parked")]},
        "This code does not have the stage points, and jobs wait for it.",
        "5 jobs wait and lose no attempt. Deploy the code that has points, or cancel its jobs.",
        Action("See its jobs", "open", "/jobs?stage=points&status=queued"),
    ),
    "a stage is at its limit": (
        {"oldest_due": {"job_id": 7, "stage": "email", "since": before(minutes=6), "reason": "stage_full", "text": ""}},
        "email runs as many jobs as its limit allows; its oldest waits since {2026-11-29T13:59:10Z}.",
        "It starts as soon as one of them ends. If they take too long, look at what runs.",
        Action("See what runs", "open", "/jobs?stage=email&status=running"),
    ),
    "a stage starts nothing": (
        {
            "oldest_due": {
                "job_id": 7,
                "stage": "email",
                "since": before(minutes=6),
                "reason": "stage_full",
                "text": "stage email starts nothing: its limit is 0 runs (set by root: the vendor is away)",
            }
        },
        "The oldest due job of email waits for a limit since {2026-11-29T13:59:10Z}.",
        "Stage email starts nothing: its limit is 0 runs (set by root: the vendor is away).",
        Action("See the limits", "open", "/limits"),
    ),
    "no tick takes a due job": (
        {
            "oldest_due": {
                "job_id": 7,
                "stage": "email",
                "since": before(minutes=6),
                "reason": "next_tick",
                "text": "due: the next tick takes it",
            }
        },
        "Job 7 of email is due since {2026-11-29T13:59:10Z}, and no tick has taken it.",
        "Due: the next tick takes it.",
        Action("Open the job", "open", "/jobs/7"),
    ),
    "dead letters wait": (
        {"dead": [a_group()]},
        "3 jobs of payment failed for good since {2026-11-29T12:05:10Z}: the card was declined.",
        "They wait for you: correct the cause, then requeue or cancel them.",
        Action("Requeue these 3 jobs", "requeue", "PermanentError: the card was declined", stage="payment"),
    ),
    "a dead letter waits": (
        {"dead": [a_group(count=1)]},
        "1 job of payment failed for good at {2026-11-29T12:05:10Z}: the card was declined.",
        "It waits for you: correct the cause, then requeue or cancel it.",
        Action("Requeue this job", "requeue", "PermanentError: the card was declined", stage="payment"),
    ),
    "dead letters revive": (
        {"dead": [a_group(count=1000, capped=True, revive_at=before(hours=-1), kind="TtrExceeded: too slow.")]},
        "1,000 or more jobs of payment failed for good since {2026-11-29T12:05:10Z}: too slow.",
        "The next one is tried again by itself at {2026-11-29T15:05:10Z}.",
        Action("Requeue these 1,000 or more jobs", "requeue", "TtrExceeded: too slow.", stage="payment"),
    ),
    "the doctor is red": (
        {
            "checks": [
                {"check": "keys", "level": "red", "message": "no card can be issued", "fix": "set it"},
                {"check": "rhythm", "level": "yellow", "message": "calls are missing", "fix": "add a clock"},
            ]
        },
        "No card can be issued.",
        "Nothing fixes this by itself: set it.",
        DOCTOR,
    ),
    "jobs start late": (
        {"starts": [{"at": before(minutes=2), "runs": 9, "p50_ms": 1000, "p95_ms": 420_000, "max_ms": 500_000}]},
        "Jobs start late: in the last 10 minutes up to 7 minutes after their time.",
        "Ticks catch up by themselves: they take the oldest jobs first.",
        DOCTOR,
    ),
    "jobs start late because of the limit": (
        {
            "starts": [{"at": before(minutes=2), "runs": 9, "p50_ms": 1000, "p95_ms": 420_000, "max_ms": 500_000}],
            "ticks": {"minutes": [a_minute(1, limit=1), a_minute(0, limit=1)]},
        },
        "Jobs start late: in the last 10 minutes up to 7 minutes after their time.",
        "2 ticks stopped at the limit with jobs left; the doctor names the setting to raise.",
        DOCTOR,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_trouble_has_its_sentence(case: str) -> None:
    changes, sentence, then, action = CASES[case]
    found = verdict(an_overview(**changes), paused_by_setting=False)
    assert (found.sentence, found.next, found.action, found.others) == (sentence, then, action, ())


@pytest.mark.parametrize(
    "halt", [{"ticks": {"silent": True}}, {"all_paused": {"by": "kate", "reason": None, "since": None}}]
)
def test_nothing_is_promised_while_no_job_starts(halt: dict[str, Any]) -> None:
    killed = {"count": 1, "capped": False, "since": before(minutes=5), "job_id": 9, "stage": "payment"}
    rows = {"circuits": [a_circuit()], "dead": [a_group(revive_at=before(hours=-1))], "killed": killed}
    facts = Facts(an_overview(**rows | halt), paused_by_setting=False)
    found = [*services.circuits(facts), *work.dead_letters(facts), *work.killed(facts)]
    assert [trouble.next for trouble in found] == [
        "212 orders wait and lose no attempt; one is tried once ticks start jobs again.",
        "They are tried again once ticks start jobs again.",
        "A tick takes it over once ticks start jobs again.",
    ]


def test_orders_are_those_of_the_flow() -> None:
    stages = [a_stage(name, waiting=1, paused={"by": "k", "reason": None, "since": None}) for name in [*FLOW, "report"]]
    found = work.waiting_stages(Facts(an_overview(stages=stages), paused_by_setting=False))
    assert [trouble.next.split()[1] for trouble in found] == ["order"] * len(FLOW) + ["job"]
