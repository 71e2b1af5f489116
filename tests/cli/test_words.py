"""One word for one thing: what people read about runs, where SQL, the API and --json keep the words of the contract."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Door
from tests.support.world import World

ROOT = Path(__file__).parents[2]
RESULTS = {
    "SUCCESS": "completed",
    "FAILED": "failed",
    "INTERRUPTED": "interrupted",
    "SNOOZED": "snoozed",
    "RELEASED": "released",
}


@pytest.mark.parametrize("words", ["history 1", "show 1", "schedules history 1"])
def test_results_of_runs_are_words(world: World, door: Door, words: str) -> None:
    world.sql("insert into public.giftcard_schedules (schedule, stage) values ('* * * * *', 'email')")
    world.sql(
        "insert into public.giftcard_jobs (id, correlation_id, stage, trigger_type) overriding system value"
        " values (1, 'schedule:1:2026-01-01T00:00:00Z', 'email', 'schedule')"
    )
    for number, result in enumerate(RESULTS, start=1):
        world.sql(
            "insert into public.giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
            f" finished_at) select 1, {number}, 1, 'email', '{result}', now(), now(), now()"
        )
    runs = door.json(*words.split())
    assert {run["status"] for run in runs.get("runs", runs.get("history"))} == set(RESULTS)
    text = door.says(*words.split())
    assert [word for word in RESULTS.values() if not re.search(rf"\b{word}\b", text)] == []
    assert [result for result in RESULTS if result in text] == []


def test_the_counts_of_a_tick_are_words(world: World, door: Door) -> None:
    world.add("email", {})
    assert "1 started, 1 dead" in door.says("tick")


def test_the_glossary_has_the_words() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("| result |"))
    assert [word for pair in RESULTS.items() for word in pair if word not in line] == []
