"""The bench's pieces run. What they measure is no test: nothing here looks at a time."""

import subprocess
import sys
from importlib.util import find_spec

import psycopg
import pytest

from bench.calls import calls_of_a_tick
from bench.child import install, measured
from bench.claims import claims
from bench.contenders import limit, ours
from bench.imports import import_time
from bench.measure import Sample, Spread
from bench.scale import Scale
from bench.server import check
from bench.table import aim
from bench.together import at_once
from dev import ROOT
from dev.postgres import Embedded
from tests.support.optional import lacks

pytestmark = pytest.mark.slow

TINY = Scale(rounds=1, jobs=40, enqueue_batch=20, finished=(50,), behind_circuit=50, circuits=5, churned=100, claims=2)


@pytest.mark.parametrize("drain", ["drain", "drain_by_store"])
def test_ours_drains_every_job_once(empty_database_url: str, drain: str) -> None:
    ours.install(empty_database_url)
    assert ours.enqueue(empty_database_url, count=40, batch=20).count == 40
    assert getattr(ours, drain)(empty_database_url, count=40, batch=10).seconds > 0
    with psycopg.connect(empty_database_url) as connection:
        runs = connection.execute("select status, run_no, count(*) from giftcard_jobs group by 1, 2").fetchall()
        kept = connection.execute("select count(*) from giftcard_job_history").fetchone()
    assert runs == [("completed", 1, 40)]
    assert kept == (40,)


def test_the_limit_drains_every_job(empty_database_url: str) -> None:
    limit.install(empty_database_url)
    limit.enqueue(empty_database_url, count=40, batch=20)
    limit.drain(empty_database_url, count=40, batch=10)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select distinct status from bench_jobs").fetchall() == [("completed",)]


@pytest.mark.parametrize(("peer", "options"), [("pgqueuer", {"managers": 2}), ("procrastinate", {})])
def test_a_peer_drains_every_job(empty_database_url: str, peer: str, options: dict[str, int]) -> None:
    if find_spec(peer) is None:
        lacks(f"{peer} is not installed: run make venv-bench")
    install(peer, empty_database_url)
    measured(peer, "enqueue", empty_database_url, count=40, batch=20)
    assert measured(peer, "drain", empty_database_url, count=40, batch=10, **options).count == 40


def test_an_idle_tick_is_one_call_and_ten_jobs_are_at_most_three(empty_database_url: str) -> None:
    ours.install(empty_database_url)
    assert calls_of_a_tick(empty_database_url, jobs=0) == 1
    assert calls_of_a_tick(empty_database_url, jobs=10) <= 3


def test_claims_and_races_run(postgres: Embedded, capsys: pytest.CaptureFixture[str]) -> None:
    claims(postgres, TINY)
    at_once(postgres, TINY)
    said = capsys.readouterr().out
    assert "50 behind a circuit" in said
    assert "eight ticks" in said


def test_nothing_heavy_is_imported_by_the_entrypoint(capsys: pytest.CaptureFixture[str]) -> None:
    import_time(TINY)
    assert "MISSED" not in capsys.readouterr().out


def test_a_careless_server_is_refused(postgres: Embedded) -> None:
    with pytest.raises(RuntimeError, match="fsync is not on"):
        check(postgres)


def test_medians_and_aims_are_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert Spread.of([3, 1, 2]) == Spread(median=2, least=1, most=3)
    assert Sample(count=10, seconds=2).per_second == 5
    aim("a", 1.2, at_least=1.3)
    aim("b", 1.2, at_most=1.5)
    missed, met = capsys.readouterr().out.splitlines()
    assert missed.split()[0] == "MISSED"
    assert met.split()[0] == "met"


def test_an_unknown_chapter_is_refused_in_one_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "no such chapter: nothing" in ended.stderr
