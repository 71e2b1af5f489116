"""The measurements of a moment: processes, database, queue, and what those outside met."""

import time
from collections.abc import Mapping
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg

from proof.soak.database import Database
from proof.soak.orders import Orders

Sample = dict[str, Any]
"""`t`: seconds since the start; numbers by name; null where the database was away. The report names them all."""

_TABLES = """
    select c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid), coalesce(s.n_dead_tup, 0)
      from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
     where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname like 'giftcard\\_%' order by 1"""
_QUEUE = """
    select (select count(*) from giftcard_jobs where status = 'queued'),
           (select count(*) from giftcard_jobs where status = 'running'),
           (select count(*) from giftcard_jobs where status = 'error'),
           (select coalesce(extract(epoch from clock_timestamp() - min(scheduled_at)), 0)::float8 from giftcard_jobs j
             where status = 'queued' and scheduled_at <= clock_timestamp()
               and not exists (select from giftcard_circuits c where c.circuit = j.circuit and c.state <> 'closed')
               and not exists (select from giftcard_stages s where s.stage = j.stage and s.paused_at is not null)),
           (select count(*) from pg_stat_activity where datname = current_database()
              and application_name <> 'soak harness'),
           pg_database_size(current_database())"""
_TICKS = """
    select percentile_cont(0.5) within group (order by d), percentile_cont(0.95) within group (order by d), count(*)
      from (select extract(epoch from ended_at - started_at)::float8 as d from giftcard_ticks
             where ended_at > clock_timestamp() - interval '60 seconds') t"""
_RUNS = """
    select result::text, count(*) from giftcard_job_history where finished_at > %s and finished_at <= %s
     group by 1 order by 1"""


class _Cpu:
    """CPU seconds of processes that come and go: the sum of what each has used since the last look."""

    def __init__(self) -> None:
        self.total = 0.0
        self._last: dict[int, float] = {}

    def note(self, used: Mapping[int, float]) -> float:
        for pid, seconds in used.items():
            self.total += max(0.0, seconds - self._last.get(pid, 0.0))
        self._last = dict(used)
        return self.total


class Sampler:
    """`results`: the runs so far, by result."""

    def __init__(self, database: Database, orders: Orders) -> None:
        self.results: dict[str, int] = {}
        self._database, self._orders = database, orders
        self._application, self._server = _Cpu(), _Cpu()
        self._runs_until: Any = None

    def sample(self, t: float, pids: Mapping[int, int]) -> Sample:
        """Measure; `pids`: the application's processes by place."""
        answers, mails = self._orders.take_times()
        taken: Sample = {"t": round(t, 1), "clock": time.strftime("%H:%M:%S", time.gmtime())}
        taken |= self._processes(pids) | self._postgres()
        taken |= {"answer": spread(answers), "to_mail": spread(mails)}
        taken |= {"accepted": self._orders.accepted, "checked": self._orders.checked, "open": len(self._orders.open)}
        for _ in range(2):  # the connection may be one of a server that was restarted since the last sample
            try:
                taken |= self._tables() | self._queue()
                break
            except psycopg.OperationalError:
                continue
        return taken | {"runs": sum(self.results.values())}

    def _processes(self, pids: Mapping[int, int]) -> Sample:
        memory, used = {}, {}
        for number, pid in pids.items():
            try:
                process = psutil.Process(pid)
                memory[f"instance {number + 1}"] = process.memory_info().rss
                used[pid] = _seconds(process)
            except psutil.NoSuchProcess:
                continue
        memory["harness"] = psutil.Process().memory_info().rss
        return {"memory": memory, "cpu_application": round(self._application.note(used), 2)}

    def _postgres(self) -> Sample:
        try:
            server = psutil.Process(self._database.pid())
            processes = [server, *server.children()]
        except (OSError, psutil.NoSuchProcess, IndexError):
            return {"memory_postgres": None, "cpu_postgres": round(self._server.total, 2)}
        memory, used = 0, 0.0
        for process in processes:
            try:
                info = process.memory_info()
                memory += info.rss - getattr(info, "shared", 0)
                used += _seconds(process)
            except psutil.NoSuchProcess:
                continue
        times = server.cpu_times()
        used += times.children_user + times.children_system  # of those that have ended
        return {"memory_postgres": memory, "cpu_postgres": round(self._server.note({server.pid: used}), 2)}

    def _tables(self) -> Sample:
        rows = self._database.rows(_TABLES)
        return {"tables": {name.removeprefix("giftcard_"): [heap, index, dead] for name, heap, index, dead in rows}}

    def _queue(self) -> Sample:
        queued, running, dead, oldest, connections, size = self._database.rows(_QUEUE)[0]
        p50, p95, ticks = self._database.rows(_TICKS)[0]
        self._count_runs()
        return {
            "queued": queued,
            "running": running,
            "dead_letters": dead,
            "oldest_due": round(oldest, 2),
            "connections": connections,
            "database": size,
            "tick": [p50, p95] if ticks else None,
            "ticks_ended": ticks,
        }

    def _count_runs(self) -> None:
        # A second behind: a run that is being settled now may end up before this moment.
        ((until,),) = self._database.rows("select clock_timestamp() - interval '1 second'")
        if self._runs_until is None:
            self._runs_until = "-infinity"
        for result, count in self._database.rows(_RUNS, [self._runs_until, until]):
            self.results[result] = self.results.get(result, 0) + count
        self._runs_until = until


def spread(values: list[float]) -> list[float] | None:
    """Return median and 95th percentile; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return [round(ordered[int(share * (len(ordered) - 1))], 4) for share in (0.5, 0.95)]


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
