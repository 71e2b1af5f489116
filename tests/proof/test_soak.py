"""The soak's verdict finds what grows and what is broken, its report and pictures show it, and a short soak passes."""

import json
import random
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from proof.soak.__main__ import conclude, run
from proof.soak.plan import FAULTS, Plan
from proof.soak.progress import line
from proof.soak.report import Results, load, passed, save, written
from proof.soak.sampling import Sample
from proof.soak.trend import Bound, cpu_per_run, slope, trend_of, trends
from tests.support.optional import lacks

_MB = 1024 * 1024
_SAMPLES = 360  # an hour, one each ten seconds


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the server's own user may enter. Each start of pytest takes that right from those of `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="giftcards-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def hour(**growth: float) -> list[Sample]:
    """Samples of an hour that grows in nothing but in what `growth` names, by so much in the hour."""
    rng = random.Random(1)
    return [_sample(number, rng, growth) for number in range(_SAMPLES)]


def _sample(number: int, rng: random.Random, growth: dict[str, float]) -> Sample:
    share = number / _SAMPLES
    runs = number * 83

    def value(name: str, level: float) -> float:
        # One in ten is far off: the server was away, or the machine busy.
        far = level if rng.random() < 0.1 else 0
        return level + growth.get(name, 0) * share + rng.uniform(-0.05, 0.05) * level + far

    return {
        "t": number * 10.0,
        "memory": {"instance 1": value("memory", 90 * _MB), "instance 2": 80 * _MB, "harness": 60 * _MB},
        "memory_postgres": value("memory_postgres", 70 * _MB),
        "cpu_application": runs * (0.015 + growth.get("cpu", 0) * share),
        "cpu_postgres": runs * 0.01,
        "connections": round(value("connections", 12)),
        "tables": {
            "jobs": [value("jobs", 4 * _MB), _MB, value("dead", 500)],
            "jobs_archive": [3 * _MB, _MB, 0],
            "orders": [1000 * runs / 5 + value("orders", 0) * runs, 0, 0],
        },
        "database": 30 * _MB,
        "queued": value("queued", 4),
        "dead_letters": 0,
        "oldest_due": value("oldest_due", 0.3),
        "tick": [1.0, value("tick", 20)],
        "answer": [value("answer", 0.02), 0.1],
        "to_mail": [value("to_mail", 0.8), 3.0],
        "accepted": runs // 5,
        "checked": runs // 5,
        "open": 3,
        "runs": runs,
    }


def results_of(samples: list[Sample], **found: Any) -> Results:
    """The results of a soak with these samples, in which each kind of fault happened."""
    faults = [(kind, 600.0 + 60 * at, 615.0 + 60 * at) for at, kind in enumerate(FAULTS)]
    values: dict[str, Any] = {"broken": [], "counts": {"orders checked": 5976}, **found}
    return Results(seconds=3600, samples=samples, faults=faults, **values)


def test_an_hour_that_grows_in_nothing_passes() -> None:
    results = results_of(hour())
    assert [trend for trend in results.trends if not trend.holds] == []
    assert len(results.trends) >= 12
    assert passed(results)


@pytest.mark.parametrize(
    ("name", "by", "grown"),
    [
        ("memory", 25 * _MB, "memory of instance 1, never killed"),
        ("memory_postgres", 100 * _MB, "memory of Postgres, private"),
        ("connections", 20, "connections of the application"),
        ("jobs", 12 * _MB, "table jobs"),
        ("dead", 20_000, "dead rows of pruned tables"),
        ("queued", 200, "queued jobs"),
        ("oldest_due", 30, "oldest due job"),
        ("to_mail", 6, "order to mail, median"),
        ("answer", 0.5, "the API's answer, median"),
        ("tick", 60, "a tick, 95th percentile"),
        ("cpu", 0.02, "CPU for each run"),
        ("orders", 20_000, "kept rows, for each order"),
    ],
)
def test_a_planted_leak_is_found(name: str, by: float, grown: str) -> None:
    results = results_of(hour(**{name: by}))
    assert [trend.name for trend in results.trends if not trend.holds] == [grown]
    assert not passed(results)
    assert f"Grew beyond its bound: {grown}." in written(results)


def test_a_table_that_is_never_pruned_is_found() -> None:
    """It grows from nothing, at the same rate all the time, as each table does while nothing is pruned."""
    samples = hour()
    for sample in samples:
        sample["tables"]["job_history"] = [sample["runs"] * 400.0, sample["runs"] * 80.0, 0]
    grown = [trend for trend in trends(samples) if not trend.holds]
    assert [trend.name for trend in grown] == ["table job_history"]


def test_one_broken_fact_fails_a_soak_and_so_does_one_without_orders() -> None:
    lost = results_of(hour(), broken=["order order-0000007 was accepted and is not done: []"])
    assert not passed(lost)
    assert written(lost).startswith("FAILED")
    assert "order-0000007 was accepted" in written(lost)
    assert not passed(results_of(hour(), counts={"orders checked": 0}))


def test_a_slope_ignores_a_third_of_the_points() -> None:
    rng = random.Random(2)
    points = [(float(x), 3.0 * x + (rng.uniform(-1e6, 1e6) if x % 4 == 0 else 0)) for x in range(200)]
    assert slope(points) == pytest.approx(3.0, rel=0.01)
    assert slope([]) == 0
    assert slope([(1.0, 5.0)]) == 0


def test_a_short_run_has_no_trends_and_says_so() -> None:
    short = results_of(hour()[:18])
    assert short.trends == []
    assert passed(short)
    assert "too short to judge trends" in written(short)
    assert trend_of("x", "", [(0.0, 1.0)], Bound(0.1, 0)) is None
    assert trends([]) == []


def test_samples_without_the_database_leave_gaps_only() -> None:
    samples = hour()
    for sample in samples[100:110]:
        for name in ("tables", "database", "queued", "dead_letters", "oldest_due", "connections", "tick"):
            sample.pop(name)
        sample["memory_postgres"] = None
        sample["to_mail"] = sample["answer"] = None
    assert passed(results_of(samples))
    assert "db away" in line(samples[105], seconds=3600, faults=1, broken=0)


def test_cpu_is_for_each_run_and_a_time_without_runs_has_none() -> None:
    idle = [{**sample, "runs": 0} for sample in hour()[:20]]
    assert cpu_per_run(idle) == []
    assert cpu_per_run(hour())[0][1] == pytest.approx(25.0)


@pytest.mark.parametrize("seconds", [20, 3600, 100 * 3600])
def test_progress_fits_a_terminal(seconds: int) -> None:
    sample = {**hour()[-1], "t": float(seconds), "accepted": 1_234_567, "checked": 1_234_560}
    assert len(line(sample, seconds=seconds, faults=12_345, broken=999)) <= 80


def test_each_plan_has_every_fault_and_the_same_ones_for_a_seed() -> None:
    for seconds in (20, 180, 3600):
        faults = Plan(seconds=seconds, seed=7).faults()
        assert {fault.kind for fault in faults} == set(FAULTS)
        assert faults == Plan(seconds=seconds, seed=7).faults() != Plan(seconds=seconds, seed=8).faults()
        assert all(0 < fault.at < seconds and fault.lasts <= seconds / 15 for fault in faults)


def test_a_report_can_be_written_again_with_its_pictures(tmp_path: Path) -> None:
    samples = hour()
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    results = results_of(samples, results={"SUCCESS": 29_880}, errors={"API: 503": 40})
    save(results, tmp_path)
    assert load(tmp_path) == results
    assert conclude(load(tmp_path), tmp_path) == 0
    assert (tmp_path / "report.md").read_text().startswith("PASSED: 60.0 minutes, 5,976 orders")
    if find_spec("matplotlib") is None:
        lacks("matplotlib is not installed: run make venv-bench")
    picture = (tmp_path / "soak.svg").read_text()
    ElementTree.fromstring(picture)  # noqa: S314 - our own
    assert "never killed" in picture
    assert "CPU for each run of a job, ms" in picture
    assert len(picture) <= 300 * 1024
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_soak_of_some_seconds_passes_and_each_fault_happens(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(Plan(seconds=20, rate=120, seed=1), home)
    printed, errors = capsys.readouterr()
    assert code == 0, f"{printed}\n{errors}"
    (folder,) = [path for path in home.iterdir() if path.name != "postgres"]
    figures = json.loads((folder / "report.json").read_text())
    assert {kind for kind, _, _ in figures["faults"]} == set(FAULTS)
    assert figures["counts"]["orders accepted"] >= 20
    assert figures["counts"]["processes killed"] >= 1
    assert all(len(each) <= 80 for each in printed.splitlines() if "% " in each)
