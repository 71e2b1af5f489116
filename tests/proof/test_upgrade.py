"""An upgrade under load: a small form of `make upgrade`, and planted mistakes that it has to find."""

import subprocess
from pathlib import Path

import pytest

from dev import ROOT
from proof.upgrade import migrations
from proof.upgrade.patches import replaced, with_constant
from proof.upgrade.release import FAULTS, next_release
from proof.upgrade.rollout import NEW, OLD, Rollout

pytestmark = pytest.mark.slow

# Seconds: twice as long as what `make upgrade` allows, where other tests run beside.
LONGEST_WAIT = 4.0
# What is broken, in words that a planted mistake has to lead to.
FOUND = {
    "long-lock": "s for a lock of the migrations: at most",
    "dropped-column": "does not exist",
    "two-of-one-name": "function public.giftcard_begin_tick",
    "refused-code": "deploy newer code",
    "wider-payload": "wrapped is unknown",
}


def rolled_out(url: str, folder: Path, *, orders: int = 80, fault: str | None = None) -> tuple[Rollout, list[str]]:
    rollout = Rollout(url, folder, orders=orders, size=2, longest_wait=LONGEST_WAIT, fault=fault)
    try:
        return rollout, rollout.run()
    finally:
        rollout.close()


def test_orders_go_on_through_an_upgrade_and_back(database_url: str, tmp_path: Path) -> None:
    rollout, broken = rolled_out(database_url, tmp_path)
    assert broken == []
    assert rollout.mailed >= 80
    figures = rollout.figures
    assert figures.waiting_receipts > 0
    assert figures.waiting_for == "this code knows no stage receipt"
    assert figures.waits.looks > 0
    assert 0 < figures.waits.of_ticks <= LONGEST_WAIT, "behind the first try, which gives up after a second"
    assert len(figures.spans) >= 2
    assert {one.version for one in rollout.fleet.processes if one.ticks} == {OLD, NEW}


def test_a_column_that_is_dropped_too_early_is_found(database_url: str, tmp_path: Path) -> None:
    _, broken = rolled_out(database_url, tmp_path, fault="dropped-column")
    assert any(FOUND["dropped-column"] in line for line in broken), broken


def test_a_lock_that_is_held_too_long_is_found(database_url: str, tmp_path: Path) -> None:
    rollout, broken = rolled_out(database_url, tmp_path, fault="long-lock")
    assert any(FOUND["long-lock"] in line for line in broken), broken
    assert rollout.figures.waits.of_ticks > LONGEST_WAIT


def test_every_fault_has_the_words_that_it_is_found_by() -> None:
    assert set(FOUND) == set(FAULTS)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    files = sorted((folder / "supabase/migrations").glob("2999*.sql"))
    assert len(files) == 3
    return subprocess.run([ROOT / ".venv/bin/squawk", *files], cwd=ROOT, capture_output=True, text=True)


def test_the_linter_has_nothing_against_the_next_migrations_and_something_against_bad_ones(tmp_path: Path) -> None:
    assert lint(next_release(tmp_path / "good")).returncode == 0
    for fault, rule in (("long-lock", "require-lock-timeout"), ("dropped-column", "ban-drop-column")):
        ended = lint(next_release(tmp_path / fault, fault=fault))
        assert (ended.returncode, rule in ended.stdout) == (1, True), fault


def test_the_next_function_has_one_more_argument_and_the_one_of_today_stays() -> None:
    files = migrations.next_migrations()
    assert "create function public.giftcard_begin_tick_v2(" in files[migrations.FUNCTIONS]
    assert "p_region text default null" in files[migrations.FUNCTIONS]
    assert "function public.giftcard_begin_tick(" not in files[migrations.FUNCTIONS]


def test_a_change_of_code_that_is_no_longer_there_fails() -> None:
    with pytest.raises(AssertionError, match="adapt proof/upgrade"):
        replaced("one two two", "two", "three")
    with pytest.raises(AssertionError, match="adapt proof/upgrade"):
        with_constant("CODE = 'x'", "CODE", 2)
