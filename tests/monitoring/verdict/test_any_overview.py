"""Whatever the rows hold, there is a verdict: short sentences, without personal data, and with times that render."""

from datetime import datetime
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.monitoring.verdict import LONGEST, Verdict, parts, rendered, verdict
from tests.support.overviews import a_circuit, a_group, a_minute, a_stage, a_tick, an_overview, before

Json = dict[str, Any]

SECRETS = ("kate@example.com", "4111 1111 1111 1111", "gct_abcdefgh1234")
TEXTS = (*SECRETS, "TransientError: ", "{", "}", "{2026-11-29T14:02:00Z}", "x" * 90, "\x1b[31m", "\ud800", "名前", ". ")
TIMES = ("infinity", "-infinity", "0001-01-01T00:00:00+00:00", "294276-01-01T00:00:00+00:00", "yesterday")
NAMES = ("by", "reason", "kind", "last_error", "error", "text", "correlation_id", "action", "message", "fix", "circuit")


def a_value(rng: Random, name: str, usual: Any) -> Any:
    """Any value of a column: of its kind, whatever a row that was changed by hand may hold."""
    if name in NAMES:
        return rng.choice([None, "", " ".join(rng.choices(TEXTS, k=rng.randint(1, 9)))])
    if name.endswith("_at") or name in ("since", "open_until", "at", "until"):
        return rng.choice([None, before(minutes=rng.randint(-600, 600)), rng.choice(TIMES)])
    if isinstance(usual, bool):
        return rng.random() < 0.5
    return rng.choice([0, 1, 2, 1000, 10**9]) if isinstance(usual, int) else usual


def a_row(rng: Random, row: Json) -> Json:
    """A row with some of the names of one."""
    return {name: a_value(rng, name, value) for name, value in row.items() if rng.random() < 0.9}


def some(rng: Random, row: Json) -> list[Json]:
    return [a_row(rng, row) for _ in range(rng.randint(0, 3))]


def perhaps(rng: Random, row: Json) -> Json | None:
    return a_row(rng, row) if rng.random() < 0.5 else None


PAUSE = {"by": "", "reason": "", "since": ""}
CHECK = {"check": "keys", "level": "red", "message": "", "fix": ""}
LINE = {"kind": "", "correlation_id": "", "since": "", "action": ""}
KILLED = {"count": 1, "capped": False, "since": "", "job_id": 1, "stage": "email", "until": ""}
ENDPOINTS = {"count": 1, "capped": False, "id": 7, "since": "", "reason": ""}
DUE = {"job_id": 7, "stage": "email", "since": "", "reason": "", "text": ""}


def any_overview(rng: Random) -> Json:
    return an_overview(
        ticks={
            "last_good": perhaps(rng, a_tick()),
            "newest": perhaps(rng, a_tick()),
            "silent": rng.random() < 0.3,
            "minutes": some(rng, a_minute(1)),
        },
        stages=[row | {"paused": perhaps(rng, PAUSE)} for row in some(rng, a_stage("email"))],
        circuits=some(rng, a_circuit()),
        dead=some(rng, a_group()),
        killed=perhaps(rng, KILLED),
        endpoints_off=perhaps(rng, ENDPOINTS),
        oldest_due=perhaps(rng, DUE),
        all_paused=perhaps(rng, PAUSE) if rng.random() < 0.3 else None,
        checks=some(rng, CHECK),
        differences={"count": rng.choice([0, 1, 9]), "capped": False, "lines": some(rng, LINE)},
        starts=some(rng, {"at": "", "runs": 1, "p50_ms": 1, "p95_ms": 1, "max_ms": 1}),
        missing=rng.choice([{}, {"email": "SMTP_URL"}, {"email": " ".join(TEXTS)}]),
    )


def is_in_order(sentence: str) -> bool:
    plain = rendered(sentence, lambda time: time.isoformat())
    return 0 < len(sentence) <= LONGEST and not any(secret in sentence for secret in SECRETS) and plain != ""


@pytest.mark.parametrize("paused_by_setting", [False, True])
def test_any_overview_has_a_verdict(paused_by_setting: bool) -> None:
    for seed in range(100):
        found = verdict(any_overview(Random(seed)), paused_by_setting=paused_by_setting)
        assert_in_order(found, seed)


def assert_in_order(found: Verdict, seed: int) -> None:
    bad = [text for text in (found.sentence, found.next, *found.others) if not is_in_order(text)]
    assert bad == [], seed
    assert (found.level == "ok") == (found.kind == "ok"), seed
    if found.action:
        assert found.action.label
        assert len(found.action.label) <= LONGEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(an_overview())), JSON, max_size=6))
def test_answer_that_is_none_of_ours_has_a_verdict(changes: dict[str, Any]) -> None:
    found = verdict(an_overview() | changes, paused_by_setting=False)
    assert is_in_order(found.sentence)
    assert all(map(is_in_order, found.others))


def test_times_are_parts_of_their_own() -> None:
    text = "down since {2026-11-29T14:02:00Z}, {not a time}, {2026-99-29T14:02:00Z}"
    first, time, rest, odd = parts(text)
    assert (first, rest) == ("down since ", ", {not a time}, ")
    assert isinstance(time, datetime)
    assert time.isoformat() == "2026-11-29T14:02:00+00:00"
    assert odd == "2026-99-29T14:02:00Z"
