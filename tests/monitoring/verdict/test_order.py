"""The worst trouble comes first, the others follow in their order, and nothing is listed twice."""

from itertools import combinations
from typing import Any

import pytest

from lib.monitoring.verdict import verdict
from tests.support.overviews import a_circuit, a_group, a_stage, a_tick, an_overview, before

KATE = {"by": "kate", "reason": None, "since": None}
RED = {"check": "schema", "level": "red", "message": "the schema does not fit", "fix": "make migrate"}
DUE = {"job_id": 7, "stage": "email", "since": before(minutes=6), "reason": "behind", "text": "behind 4 older jobs"}

# Each kind alone, in the order of the table.
KINDS: dict[str, dict[str, Any]] = {
    "unfit": {"checks": [RED]},
    "no_tick": {"ticks": {"silent": True, "silence_began": before(minutes=9)}},
    "all_paused": {"all_paused": KATE},
    "differences": {"differences": {"count": 1, "capped": False, "lines": []}},
    "circuit": {"circuits": [a_circuit()]},
    "killed": {"killed": {"count": 1, "capped": False, "since": before(minutes=5), "job_id": 9, "stage": "email"}},
    "stage_paused": {"stages": [a_stage("email", paused=KATE)]},
    "overdue": {"oldest_due": DUE},
    "dead_letters": {"dead": [a_group()]},
    "red_line": {"checks": [RED | {"check": "keys", "message": "no key is set"}]},
    "late_starts": {"starts": [{"at": before(minutes=1), "runs": 1, "p50_ms": 1, "p95_ms": 130_000, "max_ms": 1}]},
    "endpoints_off": {"endpoints_off": {"count": 1, "capped": False, "id": 7, "since": None, "reason": "HTTP 410"}},
}
# A job that stands still with everything is not listed by itself.
_FOLLOWS = {(halt, kind) for halt in ("no_tick", "all_paused") for kind in ("overdue", "late_starts")}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone(kind: str) -> None:
    found = verdict(an_overview(**KINDS[kind]), paused_by_setting=False)
    assert (found.kind, found.others) == (kind, ())


def test_each_two_kinds_in_their_order() -> None:
    for first, second in combinations(KINDS, 2):
        both = KINDS[first] | KINDS[second]
        if "checks" in KINDS[first] and "checks" in KINDS[second]:
            both = {"checks": KINDS[second]["checks"] + KINDS[first]["checks"]}
        alone = verdict(an_overview(**KINDS[second]), paused_by_setting=False)
        found = verdict(an_overview(**both), paused_by_setting=False)
        assert found.kind == first
        assert found.others == (() if (first, second) in _FOLLOWS else (alone.sentence,)), (first, second)


def test_level_is_that_of_the_worst() -> None:
    paused = KINDS["stage_paused"]
    assert verdict(an_overview(**paused), paused_by_setting=False).level == "warning"
    found = verdict(an_overview(**paused | KINDS["dead_letters"]), paused_by_setting=False)
    assert (found.kind, found.level) == ("stage_paused", "error")


@pytest.mark.parametrize("reason", ["all_paused", "circuit_open", "stage_paused", "stage_unknown", "no_tick"])
def test_job_that_waits_for_a_listed_trouble_is_not_listed_again(reason: str) -> None:
    found = verdict(an_overview(**KINDS["circuit"], oldest_due=DUE | {"reason": reason}), paused_by_setting=False)
    assert (found.kind, found.others) == ("circuit", ())


@pytest.mark.parametrize(
    ("check", "changes", "kind"),
    [
        ("ticks", {"ticks": {"silent": True, "newest": a_tick(ended_at=None)}}, "no_tick"),
        ("stages", {"stages": [a_stage("email", waiting=1)], "missing": {"email": "SMTP_URL"}}, "stage_parked"),
        ("grants", {"doctor": {"hides_rows": True}}, "unfit"),
        # The clock does not call, but ticks by hand end well.
        ("ticks", {}, "red_line"),
        ("grants", {}, "red_line"),
    ],
)
def test_red_line_about_a_trouble_is_not_listed_again(check: str, changes: dict[str, Any], kind: str) -> None:
    found = verdict(an_overview(checks=[RED | {"check": check}], **changes), paused_by_setting=False)
    assert (found.kind, found.others) == (kind, ())


def test_killed_run_that_the_next_tick_takes_over_is_no_trouble() -> None:
    killed = KINDS["killed"]["killed"] | {"since": before(seconds=50)}
    assert verdict(an_overview(killed=killed), paused_by_setting=False).level == "ok"


def test_circuits_of_shops_come_after_those_of_orders() -> None:
    circuits = [a_circuit("webhook:7", waiting=900), a_circuit(waiting=1)]
    found = verdict(an_overview(circuits=circuits, circuits_more=True), paused_by_setting=False)
    assert found.sentence.startswith("payment is down")
    assert [other.split()[0] for other in found.others] == ["More", "Webhook"]


def test_a_service_that_was_down_and_that_no_job_waits_for_is_a_warning_after_the_dead_letters() -> None:
    idle = [a_circuit("payment", state="half_open", failures=3, waiting=0, open_until=None)]
    found = verdict(an_overview(circuits=idle), paused_by_setting=False)
    assert (found.kind, found.level) == ("circuit", "warning")
    found = verdict(an_overview(circuits=idle, dead=[a_group()]), paused_by_setting=False)
    assert (found.kind, len(found.others)) == ("dead_letters", 1)
