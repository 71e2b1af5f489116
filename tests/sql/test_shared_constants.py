"""What SQL and Python both hold, in one table: the two must be equal."""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from dev import ROOT
from lib.api_client import transport
from lib.config.settings import Settings
from lib.giftcards.decisions import DIFFERENCES
from lib.giftcards.schemas import PaymentEventRequest
from lib.job import Semantics, Source, Status
from lib.jobs import schemas as job_schemas
from lib.jobs import stage as stages
from lib.jobs.retry_policy import MAX_ATTEMPTS
from lib.schedules.schemas import SchedulePatch
from lib.store import sqlstate, store
from lib.tick import tick
from lib.web import problems
from lib.webhooks.schemas import Event
from tests.support.factory import World

SCHEMAS = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "supabase/schemas").glob("*.sql")))


def allowed(constraint: str) -> Callable[[World], set[str]]:
    """The words that a CHECK allows."""

    def read(world: World) -> set[str]:
        query = "select pg_get_constraintdef(oid) as text from pg_constraint where conname = %s"
        (row,) = world.rows(query, constraint)
        return set(re.findall(r"'([\w.]+)'::text", row["text"]))

    return read


def in_schemas(pattern: str) -> Callable[[World], set[str]]:
    """What a pattern finds in supabase/schemas."""
    return lambda world: set(re.findall(pattern, SCHEMAS))


def literals(model: Any, field: str) -> set[str]:
    return set(get_args(model.model_fields[field].annotation))


STOPPED_BY_CODE = {"budget", "limit", "shutdown"}
SHARED: dict[str, tuple[Callable[[World], set[str]], set[str]]] = {
    "statuses": (allowed("giftcard_jobs_status_is_known"), set(get_args(Status))),
    "semantics": (allowed("giftcard_jobs_semantics_is_known"), set(get_args(Semantics))),
    "sources": (allowed("giftcard_jobs_source_is_known"), set(get_args(Source))),
    "webhook events": (allowed("giftcard_webhook_endpoints_events_are_known"), set(get_args(Event))),
    "differences": (
        in_schemas(r"    when '(\w+)' then '[A-Z]"),
        set(DIFFERENCES),
    ),
    "movements of money": (
        allowed("giftcard_payment_events_kind_is_known"),
        literals(PaymentEventRequest, "kind"),
    ),
    "missed policies": (
        allowed("giftcard_schedules_missed_policy_is_known"),
        literals(SchedulePatch, "missed_policy"),
    ),
    "overlap policies": (
        allowed("giftcard_schedules_overlap_policy_is_known"),
        literals(SchedulePatch, "overlap_policy"),
    ),
    # GC410 and GC426 are exceptions of their own; the others are a caller's, and have an HTTP status.
    "SQLSTATEs": (
        in_schemas(r"'(GC\d{3})'"),
        set(problems._STATUS) | set(re.findall(r"GC\d{3}", inspect.getsource(sqlstate.from_sqlstate))),
    ),
    "SQLSTATEs that come back from the API": (lambda world: set(problems._STATUS), set(transport._SQLSTATES.values())),
    "time-out of a settle with a call": (
        in_schemas(r"set statement_timeout = '(\d+)s'"),
        {f"{store._CALL_TIMEOUT:.0f}"},
    ),
    "default ttr": (
        in_schemas(r"ttr_seconds, \(\w+(?:\.stages)? ->> [\w.]+\)::integer, (\d+)\)"),
        {str(stages._DEFAULTS["ttr_seconds"])},
    ),
}


@pytest.mark.parametrize("what", SHARED)
def test_sql_and_python_hold_the_same(world: World, what: str) -> None:
    in_sql, in_python = SHARED[what]
    assert in_sql(world) == in_python
    assert in_python, "there is something to compare"


def test_a_tick_stops_for_reasons_that_the_table_knows(world: World) -> None:
    known = allowed("giftcard_ticks_stopped_because_is_known")(world)
    assert known >= STOPPED_BY_CODE
    assert known - STOPPED_BY_CODE == {"drained", "duplicate", "failed", "paused"}, "those that SQL finds itself"
    assert set(re.findall(r'"(\w+)"', inspect.getsource(tick._Tick._stop_reason))) == STOPPED_BY_CODE


def test_no_setting_or_request_allows_more_attempts_than_the_policy(world: World) -> None:
    def most(field: Any) -> int:
        found: int = next(rule.le for rule in field.metadata if hasattr(rule, "le"))
        return found

    fields = [field for name, field in Settings.model_fields.items() if name.endswith("_attempts")]
    assert len(fields) == 4
    assert {most(field) for field in fields} == {MAX_ATTEMPTS}
    schema = job_schemas.JobRequest.model_json_schema()["properties"]["max_attempts"]["anyOf"][0]
    assert schema["maximum"] == MAX_ATTEMPTS
    world.enqueue(max_attempts=MAX_ATTEMPTS)
