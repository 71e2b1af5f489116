"""Whatever the rows hold, there is a verdict: short sentences, without personal data, and with times that render."""

from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lib.monitoring.verdict import LONGEST, parts, rendered, verdict
from tests.support.overviews import a_circuit, a_group, a_minute, a_stage, a_tick, an_overview, before

SECRETS = ("kate@example.com", "4111 1111 1111 1111", "gct_abcdefgh1234")
texts = st.one_of(
    st.none(),
    st.text(max_size=300),
    st.builds(" ".join, st.lists(st.sampled_from([*SECRETS, "TransientError: ", "{", "}", "x" * 90]), max_size=9)),
)
counts = st.one_of(st.integers(0, 3), st.sampled_from([1000, 10**9]))
times = st.one_of(
    st.none(), st.sampled_from(["infinity", "-infinity", "0001-01-01T00:00:00+00:00", "294276-01-01T00:00:00+00:00"]),
    st.builds(lambda minutes: before(minutes=minutes), st.integers(-600, 600)),
)  # fmt: skip
NAMES = ("by", "reason", "kind", "last_error", "error", "text", "correlation_id", "action", "message", "fix", "circuit")


def rows_like(row: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Rows with the names of one, and any value of its kind."""

    def values(name: str) -> st.SearchStrategy[Any]:
        if name in NAMES:
            return texts
        if name.endswith("_at") or name in ("since", "open_until", "at", "until"):
            return times
        value = row[name]
        return st.booleans() if isinstance(value, bool) else counts if isinstance(value, int) else st.just(value)

    return st.fixed_dictionaries({}, optional={name: values(name) for name in row})


def lists_of(row: dict[str, Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(rows_like(row), max_size=3)


PAUSE = {"by": "", "reason": "", "since": ""}
CHECK = {"check": "keys", "level": "red", "message": "", "fix": ""}
LINE = {"kind": "", "correlation_id": "", "since": "", "action": ""}
KILLED = {"count": 1, "capped": False, "since": "", "job_id": 1, "stage": "email", "until": ""}
ENDPOINTS = {"count": 1, "capped": False, "id": 7, "since": "", "reason": ""}
DUE = {"job_id": 7, "stage": "email", "since": "", "reason": "", "text": ""}
stages = st.lists(
    st.builds(lambda row, pause: row | {"paused": pause}, rows_like(a_stage("email")), st.none() | rows_like(PAUSE)),
    max_size=3,
)
overviews = st.builds(
    lambda ticks, **changes: an_overview(ticks=ticks, **changes),
    st.fixed_dictionaries(
        {
            "last_good": st.none() | rows_like(a_tick()),
            "newest": st.none() | rows_like(a_tick()),
            "silent": st.booleans(),
            "minutes": lists_of(a_minute(1)),
        }
    ),
    stages=stages,
    circuits=lists_of(a_circuit()),
    dead=lists_of(a_group()),
    killed=st.none() | rows_like(KILLED),
    endpoints_off=st.none() | rows_like(ENDPOINTS),
    oldest_due=st.none() | rows_like(DUE),
    all_paused=st.none() | rows_like(PAUSE),
    checks=lists_of(CHECK),
    differences=st.builds(
        lambda count, lines: {"count": count, "capped": False, "lines": lines}, counts, lists_of(LINE)
    ),
    starts=lists_of({"at": "", "runs": 1, "p50_ms": 1, "p95_ms": 1, "max_ms": 1}),
    missing=st.dictionaries(st.sampled_from(["email", "payment"]), st.text(max_size=300), max_size=2),
)


def is_in_order(sentence: str) -> bool:
    plain = rendered(sentence, lambda time: time.isoformat())
    return 0 < len(sentence) <= LONGEST and not any(secret in sentence for secret in SECRETS) and plain != ""


@given(overview=overviews, paused_by_setting=st.booleans())
def test_any_overview_has_a_verdict(overview: dict[str, Any], paused_by_setting: bool) -> None:
    found = verdict(overview, paused_by_setting=paused_by_setting)
    assert all(is_in_order(sentence) for sentence in (found.sentence, found.next, *found.others))
    assert (found.level == "ok") == (found.kind == "ok")
    if found.action:
        assert found.action.label
        assert len(found.action.label) <= LONGEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


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
