"""Databases at each schema before the present one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lib.local import ROOT
from lib.local.migrate import migrate

MIGRATIONS = sorted((ROOT / "supabase/migrations").glob("*.sql"))


def at_schema(url: str, number: int, folder: Path) -> str:
    """The same address, its database brought to that schema; `migrate(url)` brings it to the present one."""
    folder.mkdir()
    for path in MIGRATIONS[:number]:
        shutil.copy(path, folder)
    assert migrate(url, directory=folder)
    return url


@pytest.fixture(params=range(1, len(MIGRATIONS)), ids=lambda number: f"schema {number}")
def earlier_url(request: pytest.FixtureRequest, empty_database_url: str, tmp_path: Path) -> str:
    """The address of a fresh database at an earlier schema."""
    return at_schema(empty_database_url, request.param, tmp_path / "migrations")


def holds(now: Any, then: Any) -> bool:
    """Whether it has all that the older one has. It may have more; where that would do harm, `Version1` looks."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and holds(now[name], value) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(now) == len(then) and all(map(holds, now, then))
    return bool(now == then)
