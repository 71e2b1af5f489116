"""Run every check."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from lib.config.settings import Settings
from lib.errors import Misconfigured, StoreError
from lib.jobs.registry import Registry
from lib.monitoring.doctor import (
    database,
    environment,
    job_secrets,
    mail,
    own_templates,
    queues,
    ticks,
    tokens,
    transport,
    variables,
    vendors,
    waking,
    work,
)
from lib.monitoring.doctor.finding import Check, Deployment, FactMissing, Facts, Finding, Json, green, red
from lib.store.connect import database_name
from lib.store.store import Store
from lib.telemetry.redact import clean

# SQLSTATE 53300, which libpq does not hand on from a connection that fails.
_TOO_MANY = re.compile(r"too many (?:clients|connections)|remaining connection slots")
_ROOT = Path(__file__).resolve().parents[3]

# In the order in which to fix them: an earlier one may cause a later one. The line `database` is between the two.
_BEFORE: tuple[Check, ...] = (
    *(tokens.secrets, variables.variables, job_secrets.job_secrets, transport.quotes),
    *(vendors.vendors, vendors.square, vendors.networks, mail.mail, own_templates.templates),
    *(environment.time, transport.transport, environment.pooler),
)
_AFTER: tuple[Check, ...] = (
    *(database.writable, database.schema, database.grants, database.clocks, database.transactions, database.vacuum),
    *(work.keys, work.stages, work.limits, work.rows, work.calls, work.books, queues.pgmq, environment.cron),
    *(ticks.ticks, ticks.rhythm, ticks.limit, waking.waking),
)


def examine(
    store: Store,
    registry: Registry,
    settings: Settings,
    *,
    failure: StoreError | None = None,
    probe: bool = False,
    root: Path = _ROOT,
    now: datetime | None = None,
) -> list[Json]:
    """Return a line for each check: `check`, `level` (green, yellow, red), `message`, `fix`.

    An unreachable database is a finding; checks that need its facts are then left out. `failure`: the error of a call
    that was made already. `probe`: also connect to the mail server, which takes up to 5 s. `now`: the time to assume in
    the database, by default its clock.
    """
    began = time.monotonic()
    try:
        if failure is not None:
            raise failure
        facts = Facts(store.doctor(stages=registry.ready(settings), now=now))
        if settings.giftcard_pgmq_queues:
            facts["pgmq"] = store.read_pgmq(tuple(queue.name for queue in settings.giftcard_pgmq_queues), limit=0)
        found = green(f"{database_name(settings)} responded within {1000 * (time.monotonic() - began):.0f} ms")
    except StoreError as error:
        facts, found = Facts(), _away(error, settings)
    return _examine(store, registry, settings, facts=facts, found=found, began=began, probe=probe, root=root)


def examine_facts(store: Store, registry: Registry, settings: Settings, *, facts: Json, began: float) -> list[Json]:
    """Return the lines of `examine` on facts that another call has returned, without the one of pgmq.

    `began`: when that call began, a `time.monotonic()` value.
    """
    found = green(f"{database_name(settings)} responded")
    return _examine(store, registry, settings, facts=Facts(facts), found=found, began=began)


def _examine(
    store: Store,
    registry: Registry,
    settings: Settings,
    *,
    facts: Facts,
    found: Finding,
    began: float,
    probe: bool = False,
    root: Path = _ROOT,
) -> list[Json]:
    """Run every check on facts that a call has returned now. `found`: the line of the database."""
    took = time.monotonic() - began
    clock = time.time()
    if facts.get("read_only"):
        facts["read_only"] = not _accepts_writes(store)
    deployment = Deployment(
        settings=settings, registry=registry, root=root, probe=probe, facts=facts, clock=clock, took=took
    )
    lines = [*_lines(_BEFORE, deployment), ("database", found), *_lines(_AFTER, deployment)]
    return [_line(name, finding, settings) for name, finding in lines]


def _lines(checks: tuple[Check, ...], deployment: Deployment) -> Iterator[tuple[str, Finding]]:
    for check in checks:
        with suppress(FactMissing):
            yield check.__name__, check(deployment)


def _accepts_writes(store: Store) -> bool:
    """Return whether a new connection can write: that of the facts may be left from a time when none could."""
    try:
        store.check_health()
    except StoreError:
        return False
    return True


def _away(error: StoreError, settings: Settings) -> Finding:
    text = (
        f"{database_name(settings)}: {error}"
        if settings.database or environment.over_supabase(settings)
        else str(error)
    )
    if isinstance(error, Misconfigured):
        first = "make migrate; " if "run the migrations" in str(error) else ""
        return red(text, fix=f"{first}see docs/doctor.md#database")
    if environment.over_supabase(settings):
        return red(text, fix="check SUPABASE_URL, and in Supabase that the project is not paused")
    if _TOO_MANY.search(text):
        return red(
            text,
            fix="on Supabase, use the pooler's address (port 6543); elsewhere end what holds them (pg_stat_activity), "
            "or raise max_connections",
        )
    return red(text, fix="check DATABASE_URL and that the database is up: psql \"$DATABASE_URL\" -c 'select 1'")


def _line(name: str, finding: Finding, settings: Settings) -> Json:
    message = clean(finding.message, secrets=settings.secrets())
    return {"check": name, "level": finding.level, "message": message, "fix": finding.fix}
