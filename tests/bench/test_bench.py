"""The bench's pieces run. What they measure is no test: nothing here looks at a time."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import psycopg
import pytest

from bench import node, table
from bench.calls import calls_of_a_tick
from bench.child import install, measured
from bench.claims import claims
from bench.configs import Config, finals, swept
from bench.contenders import ours
from bench.imports import import_time
from bench.measure import Sample, Spread
from bench.orders import VARIANTS, measured_orders
from bench.scale import Scale
from bench.server import check
from bench.side_by_side import drains, enqueueing
from bench.table import aim
from dev import ROOT
from dev.postgres import Embedded
from tests.support.optional import lacks

pytestmark = pytest.mark.slow

TINY = Scale(
    rounds=1, most_rounds=1, jobs=40, sweep=40, orders=3, enqueue_batch=20, finished=(50,), behind_circuit=50,
    circuits=5, churned=100, claims=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_record() -> Iterator[None]:
    table.SECTIONS.clear()
    yield
    table.SECTIONS.clear()


@pytest.mark.parametrize("drain", ["drain", "drain_by_store"])
def test_ours_drains_every_job_once(empty_database_url: str, drain: str) -> None:
    ours.install(empty_database_url)
    assert ours.enqueue(empty_database_url, count=40, batch=20) == 40
    assert getattr(ours, drain)(empty_database_url, count=40, batch=10) == 40
    with psycopg.connect(empty_database_url) as connection:
        runs = connection.execute("select status, run_no, count(*) from giftcard_jobs group by 1, 2").fetchall()
        kept = connection.execute("select count(*) from giftcard_job_history").fetchone()
    assert runs == [("completed", 1, 40)]
    assert kept == (40,)


PEERS: list[tuple[str, str, dict[str, Any]]] = [
    ("limit", "drain", {"processes": 2}),
    ("ours", "drain", {"ticks": 2, "log": True, "processes": 2}),
    ("pgqueuer", "drain", {"managers": 2, "processes": 2}),
    ("pgqueuer", "drain_by_calls", {}),
    ("procrastinate", "drain", {"concurrency": 2, "connections": 2}),
    ("procrastinate", "drain_by_calls", {}),
    ("pgboss", "drain", {"workers": 2, "processes": 2}),
    ("graphile", "drain", {"jobs": 10, "queue": 10, "delay": 0, "connections": 4}),
]


@pytest.mark.parametrize(("contender", "drain", "options"), PEERS)
def test_a_contender_drains_every_job(
    empty_database_url: str, contender: str, drain: str, options: dict[str, Any]
) -> None:
    there(contender)
    install(contender, empty_database_url)
    enqueued = measured(contender, "enqueue", empty_database_url, count=40, batch=20)
    assert enqueued.count == 40
    assert enqueued.server.inserted >= 40
    sample = measured(contender, drain, empty_database_url, count=40, batch=10, **options)
    assert sample.count == 40
    # Each claims a job by an update of its row, and either keeps or deletes it.
    assert sample.server.updated >= 40
    assert sample.server.commits >= 8
    assert sample.server.wal > 0


def there(contender: str) -> None:
    """Skips where a peer cannot be had."""
    if contender in ("pgqueuer", "procrastinate") and find_spec(contender) is None:
        lacks(f"{contender} is not installed: run make venv-bench")
    if node.is_node(contender) and (reason := node.prepare()):
        pytest.skip(f"{contender}: {reason}")


def test_pgqueuer_writes_two_rows_of_log_and_deletes_the_job(empty_database_url: str) -> None:
    there("pgqueuer")
    install("pgqueuer", empty_database_url)
    measured("pgqueuer", "enqueue", empty_database_url, count=40, batch=20)
    server = measured("pgqueuer", "drain", empty_database_url, count=40, batch=10, managers=1).server
    assert (server.inserted, server.updated, server.deleted) == (80, 40, 40)


def test_a_process_that_fails_is_quoted(empty_database_url: str) -> None:
    with pytest.raises(RuntimeError, match=r"limit drain failed:(.|\n)*bench_jobs"):
        measured("limit", "drain", empty_database_url, count=40, batch=10)


def test_the_best_of_a_sweep_goes_on_and_what_fails_is_left_out(
    postgres: Embedded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Config(product="pg-boss", name="broken", module="limit", operation="no_such")

    def small(best: dict[str, list[Config]], batch: int) -> dict[str, list[Config]]:
        assert "pg-boss" not in best
        process = finals(best, batch)["process"]
        return {"process": [config for config in process if config.module in ("ours", "limit")][:3]}

    monkeypatch.setattr("bench.side_by_side.swept", lambda batch: [bad, swept(batch)[0]])
    monkeypatch.setattr("bench.side_by_side.finals", small)
    drains(postgres, TINY, batch=10, until=0)
    assert "left out: broken: limit no_such failed" in capsys.readouterr().out
    sweep, process = table.SECTIONS
    assert [line["name"] for line in sweep["lines"]] == ["ours, 1 tick ★"]
    assert [line["name"] for line in process["lines"]] == ["the limit", "ours, 1 tick", "ours, 1 tick, with its log"]
    assert all(line["costs"]["wal"] > 0 and line["writes"] for line in process["lines"])
    assert len(process["aims"]) == 2


def test_the_final_has_three_levels() -> None:
    best: dict[str, list[Config]] = {}
    for config in swept(10):
        best.setdefault(config.product, []).insert(0, config)
    levels = finals(best, 10)
    assert list(levels) == ["calls", "process", "processes"]
    names = [config.name for config in levels["process"]]
    assert names[:5] == ["the limit", "ours, 1 tick", "ours, 1 tick, with its log", "ours, 4 ticks", "ours, 3 ticks"]
    assert {config.processes for config in levels["processes"]} == {2}
    together = [config.name for configs in levels.values() for config in configs]
    assert len(set(together)) == len(together)


def test_enqueueing_runs(postgres: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.side_by_side.swept", lambda batch: swept(batch)[:1])
    enqueueing(postgres, TINY)
    assert [line["name"] for line in table.SECTIONS[0]["lines"]] == ["the limit", "ours"]


def test_orders_go_through_all_stages(postgres: Embedded) -> None:
    samples = measured_orders(postgres, VARIANTS[-1:], orders=3)
    (sample,) = samples.values()
    assert sample.count == 3
    # Five jobs of the flow and one webhook, each with a row of history.
    assert sample.server.inserted >= 18


def test_an_idle_tick_is_one_call_and_ten_jobs_are_at_most_three(empty_database_url: str) -> None:
    ours.install(empty_database_url)
    assert calls_of_a_tick(empty_database_url, jobs=0) == 1
    assert calls_of_a_tick(empty_database_url, jobs=10) <= 3


def test_claims_run(postgres: Embedded, capsys: pytest.CaptureFixture[str]) -> None:
    claims(postgres, TINY)
    assert "50 behind a circuit" in capsys.readouterr().out


def test_nothing_heavy_is_imported_by_the_entrypoint(capsys: pytest.CaptureFixture[str]) -> None:
    import_time(TINY)
    assert "MISSED" not in capsys.readouterr().out


def test_a_careless_server_is_refused(postgres: Embedded) -> None:
    with pytest.raises(RuntimeError, match="fsync is not on"):
        check(postgres)


def test_rounds_end_in_time_but_not_before_two() -> None:
    assert list(Scale(rounds=3, most_rounds=5).in_time(until=0)) == [0, 1]
    assert list(Scale.quick().in_time(until=0)) == [0]


def test_medians_and_aims_are_printed_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert Spread.of([3, 1, 2]) == Spread(median=2, least=1, most=3)
    assert Sample(count=10, seconds=2).per_second == 5
    aim("a", 1.2, at_least=1.3)
    aim("b", 1.2, at_most=1.5)
    aim("c", 1.2)
    missed, met, plain = capsys.readouterr().out.splitlines()
    assert missed.split()[0] == "MISSED"
    assert met.split()[0] == "met"
    assert plain.split() == ["c:", "1.2"]


def test_an_unknown_chapter_is_refused_in_one_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "no such chapter: nothing" in ended.stderr
