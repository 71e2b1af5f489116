"""What the database says of one run of the demo: looked at while it runs, and read whole in the end."""

from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

import psycopg
from psycopg.rows import class_row, scalar_row

_RUNS = """
select j.correlation_id as order_id, j.id as job_id, h.run_no, h.stage, h.attempt, h.result, h.error,
       h.started_at, h.finished_at, j.max_attempts, extract(epoch from h.next_run_at - h.finished_at)::float8 as pause
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
# Those that came to the shut door and went through it at their first attempt.
_WAITED = """
select count(*) from public.giftcard_jobs j
 where j.tenant_id = %s and j.circuit = %s and j.run_no = 1 and j.status = 'completed' and exists (
   select from public.giftcard_circuit_changes o join public.giftcard_circuit_changes c
       on c.circuit = o.circuit and c.id > o.id and o.to_state = 'open' and c.to_state = 'closed'
    where o.circuit = j.circuit and o.id > %s and j.created_at between o.changed_at and c.changed_at)
"""
_REPORT = """
select r.day::text, r.report -> 'totals' as told, jsonb_build_object(
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
    """A run that did not succeed. `pause`: seconds until the next one; None: there is none by itself.

    `max_attempts` None: as its stage says.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A job that is a dead letter, or was one. `revives_in` None: never by itself, or it has."""

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
class Change:
    """A circuit changed its state."""

    id: int
    circuit: str
    from_state: str
    to_state: str
    changed_at: datetime
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFacts:
    """An order and what became of it. `cards` and `payments` over its own amount; `dead`: why it comes no further."""

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
    """The report of a day: what it tells, and what the tables say of that day."""

    day: str
    told: dict[str, int]
    counted: dict[str, int]


class Facts:
    """A connection that only looks."""

    def __init__(self, url: str, *, tenant: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._tenant = tenant
        self._floor: int = self._scalar("select coalesce(max(id), 0) from public.giftcard_circuit_changes")

    def __enter__(self) -> "Facts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def counts(self) -> dict[str, dict[str, int]]:
        """Jobs by stage and status."""
        query = "select stage, status, count(*) from public.giftcard_jobs where tenant_id = %s group by 1, 2"
        counts: dict[str, dict[str, int]] = {}
        for stage, status, jobs in self._connection.execute(query, [self._tenant]):
            counts.setdefault(stage, {})[status] = jobs
        return counts

    def open_jobs(self) -> int:
        """Jobs that are not at their end: queued, running, or dead letters that revive."""
        jobs: int = self._scalar(_OPEN, self._tenant)
        return jobs

    def schedules(self) -> int:
        """Schedules that are still there: one that runs once is gone when its job has ended."""
        query = "select count(*) from public.giftcard_schedules where tenant_id = %s"
        schedules: int = self._scalar(query, self._tenant)
        return schedules

    def circuits(self) -> dict[str, str]:
        """Circuits that are not closed, with their state."""
        query = "select circuit, state from public.giftcard_circuits where state <> 'closed' order by circuit"
        return dict(self._connection.execute(query).fetchall())

    def running_of(self, owner: str) -> list[tuple[str, str]]:
        """Order and stage of the jobs that a worker has begun and not settled."""
        query = (
            "select correlation_id, stage from public.giftcard_jobs "
            "where tenant_id = %s and status = 'running' and lock_owner = %s order by id"
        )
        return self._connection.execute(query, [self._tenant, owner]).fetchall()

    def runs(self) -> list[Run]:
        """Every run that did not succeed, in order."""
        return self._connection.cursor(row_factory=class_row(Run)).execute(_RUNS, [self._tenant]).fetchall()

    def letters(self) -> list[Letter]:
        """Dead letters, and jobs that have been one."""
        return self._connection.cursor(row_factory=class_row(Letter)).execute(_LETTERS, [self._tenant]).fetchall()

    def changes(self) -> list[Change]:
        """What circuits did since this object was made."""
        return self._connection.cursor(row_factory=class_row(Change)).execute(_CHANGES, [self._floor]).fetchall()

    def waited(self, circuit: str) -> int:
        """Jobs that came while a circuit was not closed, and lost no attempt by it."""
        jobs: int = self._scalar(_WAITED, self._tenant, circuit, self._floor)
        return jobs

    def orders(self) -> list[OrderFacts]:
        """The orders and what became of them."""
        return self._connection.cursor(row_factory=class_row(OrderFacts)).execute(_ORDERS, [self._tenant]).fetchall()

    def report(self) -> Report | None:
        """The report that was made."""
        return self._connection.cursor(row_factory=class_row(Report)).execute(_REPORT, [self._tenant]).fetchone()

    def endpoints_off(self) -> dict[str, str]:
        """Webhook endpoints that were turned off: why, by address."""
        query = (
            "select url, disabled_reason from public.giftcard_webhook_endpoints where tenant_id = %s and not enabled"
        )
        return dict(self._connection.execute(query, [self._tenant]).fetchall())

    def _scalar(self, query: str, *values: object) -> Any:
        return self._connection.cursor(row_factory=scalar_row).execute(query, values).fetchone()
