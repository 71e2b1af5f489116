"""The linter refuses migrations that would stop ticks: squawk, .squawk.toml and our bounds of time."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from dev import ROOT
from dev.migrate import read_migrations
from tests.upgrade.conftest import MIGRATIONS, NEXT_SQL

SQUAWK = ROOT / ".venv/bin/squawk"
TIMEOUTS = "set local lock_timeout = '1s';\nset local statement_timeout = '1500ms';\n"
# A call of a tick waits 2 s for a lock: longer than what a migration may wait and work for one.
LONGEST = {"lock_timeout": 1.0, "statement_timeout": 1.5}
JOBS = "alter table public.giftcard_jobs"


def broken_rules(*files: Path) -> set[str]:
    """The rules that squawk finds broken."""
    ended = subprocess.run([SQUAWK, "--reporter", "json", *files], cwd=ROOT, capture_output=True, text=True)
    found = {line["rule_name"] for line in json.loads(ended.stdout)}
    assert ended.returncode == (1 if found else 0), ended.stderr
    return found


def refused(tmp_path: Path, sql: str) -> set[str]:
    file = tmp_path / "20270101000000_planted.sql"
    file.write_text(sql, encoding="utf-8")
    return broken_rules(file)


def too_long(sql: str) -> list[str]:
    """The time-outs of a migration that let ticks wait for longer than they do."""
    found = re.findall(r"(?m)^set local (lock_timeout|statement_timeout) = '(\d+)(ms|s)';$", sql)
    seconds = {name: int(number) / (1000 if unit == "ms" else 1) for name, number, unit in found}
    return [name for name, most in LONGEST.items() if not 0 < seconds.get(name, 0) <= most]


def test_no_migration_of_ours_takes_a_long_lock() -> None:
    assert MIGRATIONS
    assert broken_rules(*MIGRATIONS) == set()


def test_every_migration_but_the_initial_one_is_bounded_in_time() -> None:
    _, *later = read_migrations(ROOT / "supabase/migrations")
    assert {one.file: too_long(one.sql) for one in later if not one.is_outside and too_long(one.sql)} == {}


def test_only_the_initial_migration_passes_over_rules_as_a_whole() -> None:
    _, *later = MIGRATIONS
    assert [path.name for path in later if "squawk-ignore-file" in path.read_text(encoding="utf-8")] == []


def test_the_example_of_a_next_release_keeps_the_rules(tmp_path: Path) -> None:
    assert refused(tmp_path, NEXT_SQL) == set()
    assert too_long(NEXT_SQL) == []


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("create index giftcard_x on public.giftcard_jobs (stage);", "require-concurrent-index-creation"),
        ("create index concurrently if not exists x on public.giftcard_jobs (id);", "ban-concurrent-index-creation"),
        (f"{JOBS} add column x uuid not null default gen_random_uuid();", "adding-field-with-default"),
        (f"{JOBS} add column x timestamptz not null default clock_timestamp();", "adding-field-with-default"),
        (f"{JOBS} add column x text generated always as (stage) stored;", "adding-field-with-default"),
        (f"{JOBS} add column x text not null;", "adding-required-field"),
        (f"{JOBS} alter column stage type varchar(63);", "changing-column-type"),
        (f"{JOBS} alter column circuit set not null;", "adding-not-nullable-field"),
        (f"{JOBS} add constraint x check (id > 0);", "constraint-missing-not-valid"),
        (f"{JOBS} add constraint x unique (id, stage);", "disallowed-unique-constraint"),
        (f"{JOBS} drop column context;", "ban-drop-column"),
        (f"{JOBS} rename column context to facts;", "renaming-column"),
        ("drop function public.giftcard_schema_version();", "ban-drop-function"),
        ("drop table public.giftcard_jobs;", "ban-drop-table"),
        ("alter table giftcard_jobs add column x text;", "require-table-schema"),
    ],
)
def test_a_planted_mistake_is_refused(tmp_path: Path, sql: str, rule: str) -> None:
    found = refused(tmp_path, TIMEOUTS + sql)
    assert any(one.startswith(rule) for one in found), found


def test_a_lock_without_a_timeout_is_refused(tmp_path: Path) -> None:
    sql = f"{JOBS} add column x text;"
    assert refused(tmp_path, TIMEOUTS + sql) == set()
    assert refused(tmp_path, sql) == {"require-lock-timeout", "require-statement-timeout"}


@pytest.mark.parametrize("change", [("1s", "3s"), ("1500ms", "10s"), ("set local lock", "set lock"), ("1s", "0s")])
def test_a_timeout_that_ticks_do_not_wait_for_is_refused(change: tuple[str, str]) -> None:
    assert too_long(TIMEOUTS) == []
    assert too_long(TIMEOUTS.replace(*change)) != []


def test_the_index_of_contributing_passes_in_a_file_of_its_own_only(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?m)^ +-- squawk-disable-assume-in-transaction\n(?: {6}.*\n)+", text)
    lines = [line.strip() for line in block.splitlines()]
    assert refused(tmp_path, "\n".join(lines)) == set()
    assert refused(tmp_path, "\n".join(lines[1:])) == {"ban-concurrent-index-creation-in-transaction"}
