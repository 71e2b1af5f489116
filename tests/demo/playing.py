"""A demo as a process of its own, and what its database holds."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg

from dev import ROOT

TIMEOUT = 240  # seconds, on a machine that is busy with other things


def environment(database_url: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return kept | ({"DATABASE_URL": database_url} if database_url else {})


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "demo", "--folder", str(folder), *arguments]


def demo(folder: Path, *arguments: str, database_url: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        cwd=ROOT,
        env=environment(database_url),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def one(url: str, query: str, *values: object) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query, values).fetchone()  # type: ignore[arg-type]
    return row and (row[0] if len(row) == 1 else row)
