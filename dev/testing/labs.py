"""The application over a database of a test's own: jobs run in real ticks, and time moves when it is told to."""

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
from lib.config import settings
from lib.jobs.stage import Registry
from lib.store.connect import connect
from lib.store.store import Store
from lib.tick.report import TickReport
from lib.tick.tick import run_tick

Row = dict[str, Any]

# Nobody's stage needs so many ticks in a row.
_MOST_TICKS = 1000

# Customers, orders, payments and cards are left alone: nothing depends on their age, and there can be many.
_TIMES = """
    select table_name, array_agg(column_name::text) as columns from information_schema.columns
     where table_schema = 'public' and data_type = 'timestamp with time zone' and table_name = any (array[
           'giftcard_jobs', 'giftcard_jobs_archive', 'giftcard_job_history', 'giftcard_circuits',
           'giftcard_circuit_changes', 'giftcard_stages', 'giftcard_ticks', 'giftcard_maintenance_tasks',
           'giftcard_effects'])
     group by table_name
"""


def settings_of(**environ: Any) -> settings.Settings:
    """Settings as `load` makes them of these variables and no others. None: not set."""
    given = {name: str(value) for name, value in environ.items() if value is not None}
    with mock.patch.dict(os.environ, given, clear=True):
        return settings.load()


class Lab:
    """Jobs, ticks and time over one database. Settings are environment variables: `Lab(url, GIFTCARD_MAX_ATTEMPTS=2)`.

    `registry` None: every stage of the house. A tick does not linger, because time is moved and not waited for.
    """

    def __init__(
        self, url: str, *, registry: Registry | None = None, store: Store | None = None, **environ: Any
    ) -> None:
        usual = {"GIFTCARD_ENV": "test", "GIFTCARD_TICK_LINGER": "0", "DATABASE_URL": url}
        self.url = url
        self.settings = settings_of(**(usual | environ))
        self.registry = registry or stages.load()
        self.store = store or connect(self.settings)
        self.stop = threading.Event()
        self._connection: psycopg.Connection[Row] | None = None

    def close(self) -> None:
        """Gives the connections back."""
        self.store.close()
        if self._connection is not None:
            self._connection.close()

    # Jobs

    def add(self, stage: str, payload: Any = None, **columns: Any) -> int:
        """A job of a flow of its own, by a plain INSERT as any service may make one; its id."""
        number = self.value("select count(*) from public.giftcard_jobs")
        row = {"correlation_id": f"flow-{number + 1}", "stage": stage, "payload": payload or {}} | columns
        row = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in row.items()}
        statement = sql.SQL("insert into public.giftcard_jobs ({}) values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join([sql.Placeholder()] * len(row))
        )
        made: int = self._execute(statement, tuple(row.values()))[0]["id"]
        return made

    def run_job(self, stage: str, payload: Any = None, **columns: Any) -> Row:
        """Adds a job and runs it once, due or not, in a tick that does nothing else; its row after that.

        A failure is in the row, as it would be in production: `status`, `last_error`, `scheduled_at`.
        """
        job_id = self.add(stage, payload, **columns)
        if not self.run(only_job_id=job_id, limit=1).started:
            ready, missing = self.registry.ready(self.settings), self.registry.unready(self.settings)
            why = self.store.job(job_id, stages=ready, missing=missing)["waiting_for"]
            raise AssertionError(f"job {job_id} of stage {stage} did not start: {why and why['text']}")
        return self.job(job_id)

    def drain(self) -> int:
        """Runs all that is due, and what follows of it, until nothing is; answers how many runs that were."""
        runs = 0
        for _ in range(_MOST_TICKS):
            started = self.run().started
            if not started:
                return runs
            runs += started
        raise AssertionError(f"jobs are still due after {_MOST_TICKS} ticks: does one call for itself for ever?")

    def run(self, **wanted: Any) -> TickReport:
        """One tick, with what `run_tick` may be asked for."""
        usual: Row = {"source": "test", "stop": self.stop}
        return run_tick(self.store, self.registry, self.settings, **(usual | wanted))

    def job(self, job_id: int | None = None, *, stage: str | None = None) -> Row:
        """A job's row: the one with this id, else the only one (of this stage)."""
        query = "select * from public.giftcard_jobs where id = coalesce(%s, id) and stage = coalesce(%s, stage)"
        rows = self.sql(query, job_id, stage)
        if len(rows) != 1:
            raise AssertionError(f"{len(rows)} jobs fit, not one: {rows}")
        return rows[0]

    def history(self, job_id: int) -> list[Row]:
        """A job's runs, the first one first."""
        return self.sql("select * from public.giftcard_job_history where job_id = %s order by run_no", job_id)

    def sql(self, query: str, *values: Any) -> list[Row]:
        """Rows as dicts; every statement commits by itself."""
        return self._execute(query, values)

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row."""
        return next(iter(self.sql(query, *values)[0].values()))

    # Time

    def move(self, seconds: float) -> None:
        """Lets this much time pass: everything that is written down happened that much earlier."""
        for row in self.sql(_TIMES):
            changes = [
                sql.SQL("{0} = {0} - make_interval(secs => {1})").format(sql.Identifier(column), sql.Literal(seconds))
                for column in row["columns"]
            ]
            table = sql.Identifier("public", row["table_name"])
            self._execute(sql.SQL("update {} set {}").format(table, sql.SQL(", ").join(changes)), ())

    def move_to(self, when: datetime) -> float:
        """Lets time pass until a moment has come; answers the seconds."""
        query = "select greatest(0, extract(epoch from %s::timestamptz - clock_timestamp()))::float8"
        seconds: float = self.value(query, when)
        self.move(seconds)
        return seconds

    def _execute(self, query: Any, values: tuple[Any, ...]) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)
        cursor = self._connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []
