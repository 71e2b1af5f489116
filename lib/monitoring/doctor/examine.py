"""The examination."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from lib.config.settings import Settings
from lib.errors import Misconfigured, StoreError
from lib.jobs.stage import Registry
from lib.monitoring.doctor import database, environment, queues, ticks, work
from lib.monitoring.doctor.finding import Check, Facts, Finding, Json, NotTold, Patient, green, red
from lib.store.store import Store
from lib.telemetry.redact import clean

_ROOT = Path(__file__).resolve().parents[3]

# In the order of the first hour: what comes first is to be mended first. The line `database` stands between the two.
_BEFORE: tuple[Check, ...] = (environment.secrets, environment.variables, environment.time, environment.pooler)
_AFTER: tuple[Check, ...] = (
    *(database.schema, database.grants, database.clocks, database.transactions, database.vacuum),
    *(work.keys, work.stages, queues.pgmq, environment.cron),
    *(ticks.ticks, ticks.rhythm, ticks.limit),
)


def examine(
    store: Store,
    registry: Registry,
    settings: Settings,
    *,
    failure: StoreError | None = None,
    root: Path = _ROOT,
    now: datetime | None = None,
) -> list[Json]:
    """Every check that can be made: `check`, `level` (green, yellow, red), `says`, `mend`.

    A database that is away is a finding; the checks that need its answer are left out, the others go on. `failure`: it
    was asked already, and this came of it. `now`: the database's time, else its clock's.
    """
    began = time.monotonic()
    try:
        if failure is not None:
            raise failure
        facts = Facts(store.doctor(stages=registry.ready(settings), now=now))
        if settings.giftcard_pgmq_queues:
            facts["pgmq"] = store.read_pgmq(tuple(queue for queue, _ in settings.giftcard_pgmq_queues), limit=0)
        found = green(f"it answered within {1000 * (time.monotonic() - began):.0f} ms")
    except StoreError as error:
        facts, found = Facts(), _away(error, settings)
    patient = Patient(
        settings=settings,
        registry=registry,
        root=root,
        facts=facts,
        clock=time.time(),
        took=time.monotonic() - began,
    )
    lines = [*_lines(_BEFORE, patient), ("database", found), *_lines(_AFTER, patient)]
    return [_line(name, finding, settings) for name, finding in lines]


def _lines(checks: tuple[Check, ...], patient: Patient) -> Iterator[tuple[str, Finding]]:
    for check in checks:
        with suppress(NotTold):
            yield check.__name__, check(patient)


def _away(error: StoreError, settings: Settings) -> Finding:
    if isinstance(error, Misconfigured):
        first = "make migrate; " if "run the migrations" in str(error) else ""
        return red(str(error), mend=f"{first}docs/doctor.md#database tells more")
    if environment.over_supabase(settings):
        return red(str(error), mend="is SUPABASE_URL right, and the project not paused? Its page in Supabase tells")
    return red(str(error), mend="is DATABASE_URL right, and the database up? psql \"$DATABASE_URL\" -c 'select 1'")


def _line(name: str, finding: Finding, settings: Settings) -> Json:
    says = clean(finding.says, secrets=settings.secrets())
    return {"check": name, "level": finding.level, "says": says, "mend": finding.mend}
