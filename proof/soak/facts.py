"""What has to be true of each order: checked once, when it is done, before its jobs and runs are pruned.

The facts are those of the crash tests (`tests/crash/facts.py`). Their queries name the product's tables without a
schema: here they meet temporary tables of the same names, with the rows of the orders to be checked.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lib.giftcards.cards import Vault
from proof.soak.database import Database
from proof.soak.orders import Orders
from proof.soak.outside import SoakMailServer, SoakVendor
from tests.crash import facts
from tests.crash.house import House
from tests.crash.vendors import Made, Mailbox, Vendor

_MOST = 500
_LOUD = ("warning", "error")
_TABLES = ("orders", "jobs", "job_history", "customers", "effects", "payments", "cards")
_OF_ORDERS = "select t.* from public.{table} t where t.tenant_id = 'default' and t.correlation_id = any (%s)"
_ROWS = {
    "jobs": """select t.* from public.giftcard_jobs t where t.correlation_id = any (%s) union all
               select (jsonb_populate_record(null::public.giftcard_jobs, a.job)).*
                 from public.giftcard_jobs_archive a where a.correlation_id = any (%s)""",
    "job_history": """select h.* from public.giftcard_job_history h
                       where h.job_id in (select id from pg_temp.giftcard_jobs)""",
    "customers": """select u.* from public.giftcard_customers u where u.id in
                    (select (context ->> 'customer_id')::bigint from pg_temp.giftcard_jobs where stage = 'email')""",
}
_DONE = """
    select correlation_id from public.giftcard_jobs
     where stage = 'email' and status = 'completed' and correlation_id = any (%s)
    union select correlation_id from public.giftcard_jobs_archive where stage = 'email' and correlation_id = any (%s)
    order by 1 limit %s"""
_LEFT = """
    select stage, status, attempts, last_error from public.giftcard_jobs where correlation_id = %s order by id"""
_PRUNED = """select distinct j.correlation_id from pg_temp.giftcard_jobs j
              where j.created_at < clock_timestamp() - make_interval(secs => %s)"""
# What a requeue by an operator resets, and what needs runs that may have been pruned.
_OF_ATTEMPTS = re.compile(r" counts \d+ attempts, its history ")
_OF_RUNS = re.compile(r" its history has | has the results |its history \d+$")
_ORDER = re.compile(r"\border-\d+")


@dataclass(slots=True)
class _Log:
    """The log of one worker, of the runs to be checked. It has the two names that the facts ask a worker for."""

    text: str

    @property
    def log(self) -> "_Log":
        return self

    def read_text(self) -> str:
        return self.text


@dataclass(slots=True)
class _Window:
    """The orders to be checked, in place of the crash tests' house, vendor and mailbox."""

    database: Database
    workers: list[_Log]
    made: list[Made]
    mails: dict[str, list[str]]

    def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return self.database.rows(query, arguments)


class Auditor:
    """`broken`: a line for each fact that does not hold. `old`: orders whose first runs had been pruned already."""

    def __init__(
        self,
        database: Database,
        orders: Orders,
        vendor: SoakVendor,
        mail: SoakMailServer,
        vault: Vault,
        *,
        keeps: float,
    ) -> None:
        self.broken: list[str] = []
        self.old = 0
        self._database, self._orders, self._vault, self._keeps = database, orders, vault, keeps
        self._vendor, self._mail = vendor, mail
        self._begun: dict[int, list[str]] = {}
        self._last_runs: dict[int, int] = {}
        self._connection: object = None

    def follow(self, log: "Tail", events: Counter[str]) -> None:
        """Read which runs began, by the log of a process; count its other events that are warnings or errors."""
        for line in log.lines():
            if not (line.startswith("{") and line.endswith("}")):
                events["log: a line that is no event"] += 1
                continue
            event = json.loads(line)
            if event["event"] == "run_started":
                self._begun.setdefault(event["job_id"], []).append(line)
            elif event["level"] in _LOUD:
                events[f"log: {event['event']}"] += 1

    def check(self) -> int:
        """Check the orders that are done by now; return how many."""
        waiting = [order for order, accepted in self._orders.snapshot().items() if not accepted.is_cancelled]
        done = [row[0] for row in self._database.rows(_DONE, [waiting, waiting, _MOST])]
        if done:
            self._copy(done)
            self._note(self._lines(done))
            self._orders.settle(done)
        return len(done)

    def finish(self) -> None:
        """Check what is left at the end: cancelled orders, lost ones, the vendor's books and ours."""
        left = self._orders.snapshot()
        cancelled = [order for order, accepted in left.items() if accepted.is_cancelled]
        self._orders.settle(cancelled, cancelled=True)
        for order in sorted(left.keys() - set(cancelled)):
            jobs = self._database.rows(_LEFT, [order])
            self.broken.append(f"order {order} was accepted and is not done: {jobs}")
        self._note(self._vendor.doubles())
        differences = self._database.rows("select kind, correlation_id, detail from public.giftcard_reconcile()")
        allowed = {*cancelled, *self._orders.cancelled_late}
        self._note([f"order {row[1]}: {row[0]}: {row[2]}" for row in differences if row[1] not in allowed])
        for job, lines in self._begun.items():
            runs = [json.loads(line)["run_no"] for line in lines]
            if job in self._last_runs and max(runs) > self._last_runs[job]:
                self.broken.append(f"run {max(runs)} of job {job} began, and its order was done with fewer")
        self._note([f"row of {row[0]} put aside: {row[1]}" for row in self._faulty_rows()])

    def _faulty_rows(self) -> list[tuple[Any, ...]]:
        return self._database.rows("select kind, error from public.giftcard_faulty_rows order by 1, 2 limit 20")

    def _copy(self, orders: list[str]) -> None:
        """Fill the temporary tables, which a new connection lacks."""
        connection = self._database.connection()
        if connection is not self._connection:
            for table in _TABLES:
                connection.execute(f"create temp table giftcard_{table} (like public.giftcard_{table})".encode())
            self._connection = connection
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            names = ", ".join(f"pg_temp.giftcard_{table}" for table in _TABLES)
            connection.execute(f"truncate {names}".encode())
            for table in _TABLES:
                rows = _ROWS.get(table) or _OF_ORDERS.format(table=f"giftcard_{table}")
                arguments = [orders] * rows.count("%s")
                connection.execute(f"insert into pg_temp.giftcard_{table} {rows}".encode(), arguments or None)

    def _lines(self, orders: list[str]) -> list[str]:
        jobs = self._database.rows("select id, run_no, correlation_id from pg_temp.giftcard_jobs")
        old = {row[0] for row in self._database.rows(_PRUNED, [self._keeps])}
        begun = [line for job, _, order in jobs for line in self._begun.pop(job, []) if order not in old]
        self._last_runs |= {job: run for job, run, _ in jobs}
        window = _Window(self._database, [_Log("\n".join(begun))], self._vendor.made_for(orders), self._mail.mails_of)
        house, vendor, mailbox = cast(House, window), cast(Vendor, window), cast(Mailbox, window)
        lines = facts.broken(house) + facts.broken_outside(house, vendor, self._vault)
        lines += facts.broken_mails(house, mailbox)
        self.old += len(old)
        return [line for line in lines if not self._is_excused(line, old)]

    def _is_excused(self, line: str, old: set[str]) -> bool:
        """Whether an operator's requeue, or pruning, is the reason of a line."""
        order = _ORDER.search(line)
        if order is None:
            return False
        accepted = self._orders.snapshot().get(order[0])
        is_requeued = accepted is not None and accepted.is_touched
        if is_requeued and _OF_ATTEMPTS.search(line):
            return True
        return order[0] in old and bool(_OF_RUNS.search(line))

    def _note(self, lines: list[str]) -> None:
        self.broken += lines


class Tail:
    """The new whole lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> list[str]:
        """Return the lines since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        end = text.rfind(b"\n") + 1
        self._at += end
        return text[:end].decode(errors="replace").splitlines()
