"""Queries on the data of one run of the demo, while it runs and at its end."""

from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

import psycopg
from psycopg.rows import class_row, scalar_row

_RUNS = """
select j.correlation_id as order_id, j.id as job_id, h.run_no, h.stage, h.attempt, h.result, h.error,
       h.started_at, h.finished_at, j.max_attempts, extract(epoch from h.next_run_at - h.finished_at)::float8 as pause,
       h.result in ('FAILED', 'INTERRUPTED') and exists (
         select from public.giftcard_job_history n
          where n.job_id = h.job_id and n.run_no = h.run_no + 1 and n.attempt > h.attempt) as retried
  from public.giftcard_job_history h join public.giftcard_jobs j on j.id = h.job_id
 where j.tenant_id = %s and h.result <> 'SUCCESS' order by h.finished_at, h.job_id, h.run_no
"""
_LETTERS = """
select id as job_id, correlation_id as order_id, stage, status, attempts, run_no, revivals, last_error,
       extract(epoch from revive_at - clock_timestamp())::float8 as revives_in
  from public.giftcard_jobs where tenant_id = %s and (status = 'error' or revivals > 0) order by finished_at, id
"""
_CHANGES = """
select id, circuit, from_state, to_state, changed_at, cause
  from public.giftcard_circuit_changes where id > %s order by id
"""
_ORDERS = """
select o.correlation_id as id, o.amount, o.currency, j.payload #>> '{customer,given_name}' as given_name,
       j.payload #>> '{customer,family_name}' as family_name, j.payload #>> '{customer,email}' as email,
       u.id as customer_id, u.external_id, u.personal_code, e.vendor_key as mail_key,
       (select count(*) from public.giftcard_cards c
         where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id
           and c.amount = o.amount and c.balance = o.amount and c.currency = o.currency) as cards,
       (select array_agg(p.provider_ref) from public.giftcard_payments p
         where p.tenant_id = o.tenant_id and p.correlation_id = o.correlation_id
           and p.amount = o.amount and p.currency = o.currency) as payments,
       (select string_agg(d.last_error, '; ') from public.giftcard_jobs d
         where d.tenant_id = o.tenant_id and d.correlation_id = o.correlation_id
           and d.stage <> 'webhook' and d.status in ('error', 'cancelled')) as dead
  from public.giftcard_orders o
  join public.giftcard_jobs j
    on j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id and j.stage = 'customer_ingest'
  left join public.giftcard_customers u on u.id = (j.context ->> 'customer_id')::bigint
  left join public.giftcard_effects e
    on e.tenant_id = o.tenant_id and e.correlation_id = o.correlation_id and e.stage = 'email' and e.name = 'send'
 where o.tenant_id = %s order by o.correlation_id
"""
_OPEN = """
select count(*) from public.giftcard_jobs
 where tenant_id = %s and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
"""
# Jobs that were enqueued while the circuit was open and succeeded at their first attempt.
_WAITED = """
select count(*) from public.giftcard_jobs j
 where j.tenant_id = %s and j.circuit = %s and j.run_no = 1 and j.status = 'completed' and exists (
   select from public.giftcard_circuit_changes o join public.giftcard_circuit_changes c
       on c.circuit = o.circuit and c.id > o.id and o.to_state = 'open' and c.to_state = 'closed'
    where o.circuit = j.circuit and o.id > %s and j.created_at between o.changed_at and c.changed_at)
"""
_REPORT = """
select r.day::text, r.report -> 'totals' as totals, jsonb_build_object(
         'orders', (select count(*) from public.giftcard_orders t
                     where t.tenant_id = r.tenant_id and (t.created_at at time zone 'UTC')::date = r.day),
         'payments', (select count(*) from public.giftcard_payments t
                       where t.tenant_id = r.tenant_id and (t.created_at at time zone 'UTC')::date = r.day),
         'cards', (select count(*) from public.giftcard_cards t
                    where t.tenant_id = r.tenant_id and (t.created_at at time zone 'UTC')::date = r.day)) as counted
  from public.giftcard_reports r where r.tenant_id = %s order by r.day desc limit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run without success. `pause`: seconds until the next one, also after a snooze or a revival; None: no next one.

    `max_attempts` None: the stage's. `retried`: it failed, and the next run is another attempt of the same round.
    """

    order_id: str
    job_id: int
    run_no: int
    stage: str
    attempt: int
    result: str
    error: str | None
    started_at: datetime
    finished_at: datetime
    max_attempts: int | None
    pause: float | None
    retried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job that is or was a dead letter. `revives_in`: seconds; None: never, or already revived."""

    job_id: int
    order_id: str
    stage: str
    status: str
    attempts: int
    run_no: int
    revivals: int
    last_error: str | None
    revives_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitChange:
    """A change of a circuit's state."""

    id: int
    circuit: str
    from_state: str
    to_state: str
    changed_at: datetime
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderState:
    """An order and its results. `cards` and `payments` of its amount; `dead`: the errors that stopped it."""

    id: str
    amount: int
    currency: str
    given_name: str
    family_name: str | None
    email: str
    customer_id: int | None
    external_id: str | None
    personal_code: str | None
    mail_key: str | None
    cards: int
    payments: list[str] | None
    dead: str | None

    @property
    def name(self) -> str:
        """Given and family name."""
        return " ".join(filter(None, [self.given_name, self.family_name]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A daily report: its totals, and the counts of that day in the tables."""

    day: str
    totals: dict[str, int]
    counted: dict[str, int]


class Snapshot:
    """Read-only queries over a connection."""

    def __init__(self, url: str, *, tenant: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._tenant = tenant
        self._floor: int = self._scalar("select coalesce(max(id), 0) from public.giftcard_circuit_changes")

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def counts(self) -> dict[str, dict[str, int]]:
        """Count jobs by stage and status."""
        query = "select stage, status, count(*) from public.giftcard_jobs where tenant_id = %s group by 1, 2"
        counts: dict[str, dict[str, int]] = {}
        for stage, status, jobs in self._connection.execute(query, [self._tenant]):
            counts.setdefault(stage, {})[status] = jobs
        return counts

    def open_jobs(self) -> int:
        """Count unfinished jobs: queued, running, or dead letters to be revived."""
        jobs: int = self._scalar(_OPEN, self._tenant)
        return jobs

    def schedules(self) -> int:
        """Count schedules; one that runs once is deleted when its job has finished."""
        query = "select count(*) from public.giftcard_schedules where tenant_id = %s"
        schedules: int = self._scalar(query, self._tenant)
        return schedules

    def circuits(self) -> dict[str, str]:
        """Return circuits that are not closed, with their state."""
        query = "select circuit, state from public.giftcard_circuits where state <> 'closed' order by circuit"
        return dict(self._connection.execute(query).fetchall())

    def running_of(self, owner: str) -> list[tuple[str, str]]:
        """Return order and stage of a worker's running jobs."""
        query = (
            "select correlation_id, stage from public.giftcard_jobs "
            "where tenant_id = %s and status = 'running' and lock_owner = %s order by id"
        )
        return self._connection.execute(query, [self._tenant, owner]).fetchall()

    def runs(self) -> list[Run]:
        """Return all runs without success, in order."""
        return self._connection.cursor(row_factory=class_row(Run)).execute(_RUNS, [self._tenant]).fetchall()

    def letters(self) -> list[DeadLetter]:
        """Return the jobs that are or were dead letters."""
        return self._connection.cursor(row_factory=class_row(DeadLetter)).execute(_LETTERS, [self._tenant]).fetchall()

    def changes(self) -> list[CircuitChange]:
        """Return the changes of circuits since this object was created."""
        return self._connection.cursor(row_factory=class_row(CircuitChange)).execute(_CHANGES, [self._floor]).fetchall()

    def waited(self, circuit: str) -> int:
        """Count jobs that waited for a circuit and lost no attempt."""
        jobs: int = self._scalar(_WAITED, self._tenant, circuit, self._floor)
        return jobs

    def orders(self) -> list[OrderState]:
        """Return the orders and their results."""
        return self._connection.cursor(row_factory=class_row(OrderState)).execute(_ORDERS, [self._tenant]).fetchall()

    def report(self) -> Report | None:
        """Return the daily report."""
        return self._connection.cursor(row_factory=class_row(Report)).execute(_REPORT, [self._tenant]).fetchone()

    def disabled_endpoints(self) -> dict[str, str]:
        """Return the reasons of disabled webhook endpoints, by URL."""
        query = (
            "select url, disabled_reason from public.giftcard_webhook_endpoints where tenant_id = %s and not enabled"
        )
        return dict(self._connection.execute(query, [self._tenant]).fetchall())

    def _scalar(self, query: str, *values: object) -> Any:
        return self._connection.cursor(row_factory=scalar_row).execute(query, values).fetchone()
