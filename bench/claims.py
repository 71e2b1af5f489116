"""The time of a claim of ten jobs on different tables, as a multiple of the time on an empty one."""

import functools
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.contenders import ours
from bench.measure import Spread
from bench.scale import Scale
from bench.server import fresh, tidy
from bench.table import Line, aim, bars, title, write
from dev.postgres import Embedded
from lib.job import Complete
from lib.store.codec import Result
from lib.store.connect import connect
from lib.store.store import Store

_TEN = 10
_CHURN_BATCH = 5_000

_FINISHED = """
with jobs as (
  insert into giftcard_jobs
    (correlation_id, stage, circuit, status, attempts, run_no, created_at, scheduled_at, finished_at)
  select 'done-' || n, 'noop', 'noop', 'completed', 1, 1, t, t, t
    from generate_series(1, %s) n
    cross join lateral (select now() - interval '30 days' + n * interval '1 second' as t) x
  returning id, scheduled_at)
insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
select id, 1, 1, 'noop', 'SUCCESS', scheduled_at, scheduled_at, scheduled_at from jobs
"""
_OPEN_CIRCUIT = """
insert into giftcard_circuits (circuit, state, changed_at, open_until)
values ('noop:open', 'open', now(), now() + interval '1 day')
"""
_BEHIND_CIRCUIT = """
insert into giftcard_jobs (correlation_id, stage, circuit, scheduled_at)
select 'behind-' || n, 'noop', 'noop:open', now() - interval '1 day' from generate_series(1, %s) n
"""
_MANY_CIRCUITS = """
insert into giftcard_jobs (correlation_id, stage, circuit)
select 'many-' || c || '-' || n, 'noop', 'noop:' || c from generate_series(1, %s) c cross join generate_series(1, 10) n
"""
_OTHER_CIRCUITS: dict[str, list[tuple[str, list[Any]]]] = {
    "with jobs for later": [("update giftcard_jobs set scheduled_at = now() + interval '1 day'", [])],
    "open": [
        (
            "insert into giftcard_circuits (circuit, state, changed_at, open_until)"
            " select distinct circuit, 'open', now(), now() + interval '1 day' from giftcard_jobs",
            [],
        )
    ],
    "of ten priorities": [("update giftcard_jobs set priority = id %% 21 - 10", [])],
}


@dataclass(slots=True, kw_only=True)
class _Table:
    """A database in some state, and the times of its claims: microseconds, the median of each round."""

    name: str
    url: str
    store: Store
    aim: float | None
    tick_id: int = 0
    times: list[float] = field(default_factory=list)


def claims(server: Embedded, scale: Scale) -> None:
    """Measure claims on all tables in turn."""
    title("A claim of ten jobs: one call of a tick, by content of the table")
    tables = _tables(server, scale)
    for _ in range(scale.rounds):
        _round(tables, scale.claims)
    bars(
        [Line(name=table.name, spread=Spread.of(table.times), note=_note(table, tables[0])) for table in tables],
        unit="µs",
    )
    for table in tables[1:]:
        if table.aim is not None:
            aim(
                f"{table.name}, as a multiple of the empty table", _multiple(table, tables[0]).median, at_most=table.aim
            )
    for table in tables:
        table.store.close()


def _tables(server: Embedded, scale: Scale) -> list[_Table]:
    def make(name: str, prepare: Callable[[str], None], *, aim: float | None = 1.5, vacuum: bool = True) -> _Table:
        began = time.monotonic()
        url = fresh(server)
        ours.install(url)
        prepare(url)
        if vacuum:
            tidy(url)
        write(f"  (created: {name}, {time.monotonic() - began:.0f} s)")
        return _Table(name=name, url=url, store=connect(ours.settings_for(url, concurrency=_TEN)), aim=aim)

    return [
        make("an empty table", lambda url: None),
        *(make(f"{n:,} finished", functools.partial(_run, statements=[(_FINISHED, [n])])) for n in scale.finished),
        make(
            f"{scale.behind_circuit:,} behind a circuit",
            functools.partial(_run, statements=[(_OPEN_CIRCUIT, []), (_BEHIND_CIRCUIT, [scale.behind_circuit])]),
        ),
        *(
            make(f"{n:,} circuits", functools.partial(_run, statements=[(_MANY_CIRCUITS, [n])]), aim=most)
            for n, most in ((scale.circuits, 2.0), (10 * scale.circuits, 4.0))
        ),
        *(
            make(
                f"{10 * scale.circuits:,} circuits, {name}",
                functools.partial(_run, statements=[(_MANY_CIRCUITS, [10 * scale.circuits]), *statements]),
                aim=4.0,
            )
            for name, statements in _OTHER_CIRCUITS.items()
        ),
        make(f"{scale.churned:,} churned", functools.partial(churn, jobs=scale.churned), vacuum=False),
    ]


def churn(url: str, *, jobs: int) -> None:
    """Enqueue, claim and settle this many jobs, with autovacuum on, and leave the dead rows."""
    for _ in range(max(1, jobs // _CHURN_BATCH)):
        count = min(jobs, _CHURN_BATCH)
        ours.enqueue(url, count=count, batch=1_000)
        ours.drain_by_store(url, count=count, batch=100)


def _round(tables: list[_Table], count: int) -> None:
    for table in tables:
        table.store.enqueue(ours.jobs(range(_TEN * (count + 1))))
        step = table.store.begin_tick(
            key=str(uuid.uuid4()), owner="bench", source="bench", stages={"noop": 60}, limit=_TEN, live_seconds=600
        )
        table.tick_id = step.tick_id
        _advance(table, limit=0, results=[Result(job=job, outcome=Complete()) for job in step.jobs])
    times: dict[str, list[float]] = {table.name: [] for table in tables}
    for _ in range(count):
        for table in tables:
            began = time.perf_counter()
            step = _advance(table, limit=_TEN, results=[])
            times[table.name].append(1e6 * (time.perf_counter() - began))
            if len(step.jobs) != _TEN:
                raise RuntimeError(f"{table.name}: {len(step.jobs)} jobs were claimed")
            _advance(table, limit=0, results=[Result(job=job, outcome=Complete()) for job in step.jobs])
    for table in tables:
        table.times.append(Spread.of(times[table.name]).median)


def _advance(table: _Table, *, limit: int, results: list[Result]) -> Any:
    return table.store.advance_tick(
        table.tick_id, claim_key=str(uuid.uuid4()), results=results, limit=limit, busy=1, linger_seconds=60
    )


def _multiple(table: _Table, empty: _Table) -> Spread:
    return Spread.of([time / base for time, base in zip(table.times, empty.times, strict=True)])


def _note(table: _Table, empty: _Table) -> str:
    multiple = _multiple(table, empty)
    return "" if table is empty else f"× {multiple.median:.2f} ({multiple.least:.2f} – {multiple.most:.2f})"


def _run(url: str, *, statements: list[tuple[str, list[Any]]]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement, values in statements:
            connection.execute(statement.encode(), values)
