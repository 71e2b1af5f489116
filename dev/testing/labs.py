"""The application with a test's own database: jobs run in real ticks, and tests move time."""

import os
import threading
from datetime import datetime
from typing import Any
from unittest import mock

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from lib import stages
from lib.caller import Caller
from lib.config.load import load
from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.store.connect import connect
from lib.store.store import Store
from lib.tick.report import TickReport
from lib.tick.tick import run_tick

Row = dict[str, Any]

# More ticks in a row mean that jobs enqueue each other endlessly.
_MAX_TICKS = 1000

# Without customers, orders, payments and cards: nothing depends on their age, and there can be many.
_TIMES = """
    select table_name, array_agg(column_name::text) as columns from information_schema.columns
     where table_schema = 'public' and data_type = 'timestamp with time zone' and table_name = any (array[
           'giftcard_jobs', 'giftcard_jobs_archive', 'giftcard_job_history', 'giftcard_circuits',
           'giftcard_circuit_changes', 'giftcard_stages', 'giftcard_ticks', 'giftcard_maintenance_tasks',
           'giftcard_effects', 'giftcard_alerts', 'giftcard_alert_notifications', 'giftcard_tokens',
           'giftcard_denied_requests', 'giftcard_operations', 'giftcard_wakes'])
     group by table_name
"""


def settings_of(**environ: Any) -> Settings:
    """Return the settings of these variables only. None: not set."""
    given = {name: str(value) for name, value in environ.items() if value is not None}
    with mock.patch.dict(os.environ, given, clear=True):
        return load()


class Lab:
    """Jobs, ticks and time over one database. Settings are environment variables: `Lab(url, GIFTCARD_MAX_ATTEMPTS=2)`.

    `registry` None: all built-in stages, and those of `GIFTCARD_STAGES`. Ticks do not linger, because tests move time
    instead of waiting.
    """

    def __init__(
        self, url: str, *, registry: Registry | None = None, store: Store | None = None, **environ: Any
    ) -> None:
        defaults = {"GIFTCARD_ENV": "test", "GIFTCARD_TICK_LINGER": "0", "DATABASE_URL": url}
        self.url = url
        self.settings = settings_of(**(defaults | environ))
        self.registry = registry or stages.load(self.settings)
        self.store = store or connect(self.settings)
        self.stop = threading.Event()
        self._connection: psycopg.Connection[Row] | None = None

    def close(self) -> None:
        """Close the connections."""
        self.store.close()
        if self._connection is not None:
            self._connection.close()

    # Jobs

    def add(self, stage: str, payload: Any = None, **columns: Any) -> int:
        """Insert a job in a new flow with a plain INSERT, as any service may, and return its id."""
        number = self.value("select count(*) from public.giftcard_jobs")
        row = {"correlation_id": f"flow-{number + 1}", "stage": stage, "payload": payload or {}} | columns
        row = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in row.items()}
        statement = sql.SQL("insert into public.giftcard_jobs ({}) values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join([sql.Placeholder()] * len(row))
        )
        job_id: int = self._execute(statement, tuple(row.values()))[0]["id"]
        return job_id

    def run_job(self, stage: str, payload: Any = None, **columns: Any) -> Row:
        """Add a job, run it once, due or not, in a tick of its own, and return its row.

        A failure is in the row, as in production: `status`, `last_error`, `scheduled_at`.
        """
        job_id = self.add(stage, payload, **columns)
        if not self.run(only_job_id=job_id, limit=1).started:
            ready, missing = self.registry.ready(self.settings), self.registry.unready(self.settings)
            waiting_for = self.store.job(job_id, tenant_id=None, stages=ready, missing=missing)["waiting_for"]
            raise AssertionError(f"job {job_id} of stage {stage} did not start: {waiting_for and waiting_for['text']}")
        return self.job(job_id)

    def drain(self) -> int:
        """Run ticks until no job is due, and return the number of runs."""
        runs = 0
        for _ in range(_MAX_TICKS):
            started = self.run().started
            if not started:
                return runs
            runs += started
        raise AssertionError(f"jobs are still due after {_MAX_TICKS} ticks: does a job enqueue itself endlessly?")

    def run(self, **arguments: Any) -> TickReport:
        """Run a tick, with arguments of `run_tick`."""
        defaults: Row = {"source": "test", "stop": self.stop}
        return run_tick(self.store, self.registry, self.settings, **(defaults | arguments))

    def requeue(self, job_id: int, *, payload: Row | None = None, force: bool = False) -> Row:
        """Requeue a job, as an operator does: `{"id": 7, "status": "queued", "was": "error"}`."""
        return self.store.requeue(job_id, payload=payload, force=force, caller=Caller("lab"))

    def job(self, job_id: int | None = None, *, stage: str | None = None) -> Row:
        """Return the row of a job: the one with this id, else the only one (of this stage)."""
        query = "select * from public.giftcard_jobs where id = coalesce(%s, id) and stage = coalesce(%s, stage)"
        rows = self.sql(query, job_id, stage)
        if len(rows) != 1:
            raise AssertionError(f"{len(rows)} jobs match, not one: {rows}")
        return rows[0]

    def history(self, job_id: int) -> list[Row]:
        """Return a job's runs, oldest first."""
        return self.sql("select * from public.giftcard_job_history where job_id = %s order by run_no", job_id)

    def sql(self, query: str, *values: Any) -> list[Row]:
        """Execute a statement, commit it, and return its rows as dicts."""
        return self._execute(query, values)

    def value(self, query: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        return next(iter(self.sql(query, *values)[0].values()))

    # Time

    def move(self, seconds: float) -> None:
        """Let seconds pass, by moving all stored times into the past."""
        for row in self.sql(_TIMES):
            changes = [
                sql.SQL("{0} = {0} - make_interval(secs => {1})").format(sql.Identifier(column), sql.Literal(seconds))
                for column in row["columns"]
            ]
            table = sql.Identifier("public", row["table_name"])
            self._execute(sql.SQL("update {} set {}").format(table, sql.SQL(", ").join(changes)), ())

    def move_to(self, when: datetime) -> float:
        """Let time pass until `when` and return the seconds."""
        query = "select greatest(0, extract(epoch from %s::timestamptz - clock_timestamp()))::float8"
        seconds: float = self.value(query, when)
        self.move(seconds)
        return seconds

    def _execute(self, query: Any, values: tuple[Any, ...]) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)
        cursor = self._connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []
