"""The frame of `flask jobs top`: it fits any window, and the most important stays in a small one."""

import itertools

import pytest

from lib.cli.layout import cell_width
from lib.cli.top_frame import command, frame
from lib.cli.top_stages import SORTS, ordered
from lib.cli.top_view import View, ansi
from lib.monitoring.verdict import away, verdict
from tests.support.overviews import (
    FLOW,
    NOW,
    Json,
    a_circuit,
    a_group,
    a_minute,
    a_stage,
    a_tick,
    an_overview,
    before,
)

IDLE = {"runs": 0, "succeeded": 0, "p50_ms": None, "p95_ms": None}


def a_night() -> Json:
    """Trouble of many kinds, with names in wide characters."""
    stages = [*map(a_stage, FLOW), a_stage("贈り物" * 9, waiting=1000), a_stage("report", **IDLE)]
    stages[2] = a_stage("payment", waiting=211, retrying=1, dead=3, availability="blocked", runs=100, succeeded=99)
    found = an_overview(
        stages=stages,
        circuits=[a_circuit(), a_circuit("http_call:shop")],
        dead=[a_group(count=n, kind=f"PermanentError: 名前 {n} " * 9) for n in range(1, 9)],
        ticks={"minutes": [a_minute(n, failed=n == 7, missing=n == 9, doubled=n == 11) for n in range(59, -1, -1)]},
    )
    return found | {"verdict": verdict(found, paused_by_setting=False).as_json()}


def drawn(view: View, **more: Json) -> list[str]:
    return [ansi(line, colours=False) for line in frame(a_night(), view, **more)]


@pytest.mark.parametrize("is_away", [False, True])
def test_frame_fits_any_window(is_away: bool) -> None:
    problem = away("connection refused", since_time=NOW) if is_away else None
    for columns, rows, plain in itertools.product((1, 20, 39, 80, 120, 300), (1, 5, 23, 39, 60), (False, True)):
        lines = [
            ansi(line, colours=False) for line in frame(a_night(), View(columns, rows, ascii_only=plain), away=problem)
        ]
        assert len(lines) <= rows
        assert all(cell_width(line) <= columns for line in lines), (columns, rows)
        assert not plain or all(map(str.isascii, lines))


def test_small_window_has_the_verdict_and_the_stages_that_work() -> None:
    text = "\n".join(drawn(View(80, 12)))
    for part in ("payment is down", "flask jobs circuits reset payment", "issue_card", "open 0:32"):
        assert part in text
    assert "report" not in text


def test_window_of_24_lines_has_everything() -> None:
    text = "\n".join(drawn(View(80, 23)))
    for part in ("payment is down", "ticks ", "last ", "today ", "also: ", "more trouble", "issue_card"):
        assert part in text


def test_numbers_are_exact_or_say_that_there_are_more() -> None:
    rows = {line.split()[0]: line for line in drawn(View(120)) if line.strip()}
    assert rows["payment"].split() == ["payment", "211", "1", "·", "3", "open", "0:32", "99%", "120", "ms", "480", "ms"]
    assert "1,000+" in next(line for line in drawn(View(120)) if line.startswith("贈り物"))


def test_countdown_and_age_go_on_between_two_answers() -> None:
    text = "\n".join(drawn(View(80, elapsed=30)))
    assert "open 0:02" in text
    assert "(38 s ago)" in text


@pytest.mark.parametrize("time", ["infinity", "-infinity", "9999-12-31T23:59:59+00:00"])
def test_times_set_by_hand_do_not_end_it(time: str) -> None:
    found = a_night()
    for circuit in found["circuits"]:
        circuit |= {"state": "open", "open_until": time}
    found["circuits"][0]["stage"] = found["stages"][0]["stage"]
    for group in found["dead"]:
        group["revive_at"] = time
    assert frame(found, View(width=80, height=24))


@pytest.mark.parametrize("sort", SORTS)
def test_stages_are_sorted_by_each_column(sort: str) -> None:
    names = [stage["stage"] for stage in ordered(a_night(), View(80, sort=sort))]
    assert names[:5] == FLOW if sort in ("flow", "running", "p95") else names[0] in ("payment", "贈り物" * 9)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"all_paused": {"by": "k", "reason": None, "since": None}}, "flask jobs resume '*'"),
        ({"dead": [a_group(kind="E: [n]")]}, "flask jobs requeue --stage payment --error-kind 'E: [n]' --dry-run"),
        ({"dead": [a_group(kind="E: " + "x" * 99)]}, "flask jobs errors --stage payment"),
        ({"stages": [a_stage("x", waiting=1, availability="parked")]}, "flask jobs list --stage x --status queued"),
        ({"differences": {"count": 1, "capped": False, "lines": []}}, "flask jobs orders reconcile"),
        ({"ticks": {"newest": None, "last_good": None}}, "flask jobs tick"),
        ({"ticks": {"silent": True, "newest": a_tick(error="x")}}, "flask jobs doctor"),
        (
            {"oldest_due": {"job_id": 7, "stage": "x", "since": before(hours=1), "reason": "behind", "text": ""}},
            "flask jobs show 7",
        ),
    ],
)
def test_each_action_has_its_command(changes: Json, expected: str) -> None:
    action = verdict(an_overview(**changes), paused_by_setting=False).as_json()["action"]
    assert command(action, room=78) == expected
