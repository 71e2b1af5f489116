"""Databases at the schema before the present one: all migrations but the last."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lib.local import ROOT
from lib.local.migrate import migrate

MIGRATIONS = sorted((ROOT / "supabase/migrations").glob("*.sql"))


@pytest.fixture
def before_last(tmp_path: Path) -> Path:
    """A folder of migrations as it was before the last one was written."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for path in MIGRATIONS[:-1]:
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def previous_url(empty_database_url: str, before_last: Path) -> str:
    """The address of a fresh database at the previous schema; `migrate(url)` brings it to the present one."""
    assert migrate(empty_database_url, directory=before_last)
    return empty_database_url


def holds(now: Any, then: Any) -> bool:
    """Whether it has all that the older one has. It may have more; where that would do harm, `Version1` looks."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and holds(now[name], value) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(now) == len(then) and all(map(holds, now, then))
    return bool(now == then)
