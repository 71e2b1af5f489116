"""Values that somebody wrote into rows by plain SQL, one at a time, and the rows that they are written into."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.world import World

LONG_NUMBER = '{"n": ' + "9" * 5000 + "}"
LONG_EXPONENT = '{"n": [1e5000, -1e400, 1.5e400]}'
DEEP = '{"a":' * 3000 + "1" + "}" * 3000
LARGE = '{"blob": "' + "x" * 6_000_000 + '"}'
UNREADABLE = {"long number": LONG_NUMBER, "long exponent": LONG_EXPONENT, "deep": DEEP, "large": LARGE}
ODD_JSON = UNREADABLE | {
    "number": "5",
    "list": "[1, null]",
    "text": '"x"',
    "null": "null",
    "empty": "{}",
    "true": "true",
}
INFINITE = ("infinity", "-infinity")
FAR = ("294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "10000-01-01 00:00:00+00")
DAYS = ("infinity", "-infinity", "5874897-12-31", "4713-01-01 BC")
LONG = "kate@example.com 4111 1111 1111 1111 " + "\N{PILE OF POO}\x1b[31m" * 500_000


FIGURES = {"failures": 1, "retries": 1, "dead_letters": 0}


def report(**changes: Any) -> str:
    return json.dumps({"complete": True, "totals": {}, "currencies": [], "failures": [], "last_days": []} | changes)


def plants() -> Iterator[tuple[str, str, list[Any]]]:
    """Name, statement and values of one hostile value each, into the rows that `stocked` has."""

    def columns(table: str, names: str, values: dict[str, Any], cast: str = "") -> Iterator[tuple[str, str, list[Any]]]:
        for column in names.split():
            for name, value in values.items():
                yield f"{table}.{column} {name}", f"update public.giftcard_{table} set {column} = %s{cast}", [value]

    def times(table: str, names: str) -> Iterator[tuple[str, str, list[Any]]]:
        """Infinity in one column at a time; times that Python does not have in all of them."""
        yield from columns(table, names, {time: time for time in INFINITE})
        for time in FAR:
            all_of_them = ", ".join(f"{name} = %s" for name in names.split())
            yield f"{table} {time}", f"update public.giftcard_{table} set {all_of_them}", [time] * len(names.split())

    yield from columns("jobs", "payload context", UNREADABLE, "::jsonb")
    yield from times("jobs", "scheduled_at locked_at lease_expires_at revive_at created_at updated_at finished_at")
    yield from columns("jobs", "lock_owner trigger_type last_error", {"long": LONG})
    yield from columns("job_history", "detail", ODD_JSON, "::jsonb")
    yield from times("job_history", "scheduled_at started_at finished_at next_run_at")
    yield from columns("job_history", "lock_owner error next_run_at lease_id", {"null": None})
    yield from columns("job_history", "lock_owner error", {"long": LONG})
    yield from columns("job_history", "attempt", {"negative": -5, "largest": 2**31 - 1})
    yield from times("limits", "until updated_at")
    yield from times("rates", "full_at held_until")
    yield from columns("limits", "set_by reason", {"long": LONG})
    yield from columns("jobs_archive", "job", ODD_JSON, "::jsonb")
    yield from times("jobs_archive", "archived_at")
    for name, value in {"status": '"odd"', "attempts": '"x"', "payload": "5", "created_at": '"infinity"', "id": "null",
                        "ttr_seconds": "-1", "retry_delays": '"x"', "last_error": '{"a": [1]}'}.items():  # fmt: skip
        yield (
            f"archived {name}",
            "update public.giftcard_jobs_archive set job = job || %s::jsonb",
            [f'{{"{name}": {value}}}'],
        )
    yield from columns("schedules", "payload", UNREADABLE, "::jsonb")
    yield from times("schedules", "next_at last_at last_missed_at last_skipped_at created_at updated_at paused_at")
    yield from columns("schedules", "paused_by pause_reason", {"long": LONG})
    yield from columns("schedules", "schedule timezone", {"odd": "no such thing", "empty": ""})
    yield from columns("schedules", "last_job_id", {"null": None, "none": 10**15})
    events = {"twice": "{job.completed,job.completed}", "arrays": "{{job.completed},{report.ready}}"}
    yield from columns("webhook_endpoints", "events", events, "::text[]")
    yield from times("webhook_endpoints", "previous_secret_until oldest_secret_until created_at updated_at")
    yield (
        "webhook_endpoints.disabled_reason",
        ("update public.giftcard_webhook_endpoints set enabled = false, disabled_reason = %s"),
        [LONG],
    )
    yield from columns("operations", "filter", UNREADABLE, "::jsonb")
    yield from columns("operations", "reason created_by stopped_because error", {"long": LONG})
    yield from columns("operations", "job_ids", {"many": list(range(100_000)), "none": [None]}, "::bigint[]")
    yield from times("operations", "next_at created_at last_at finished_at")
    yield from columns("batches", "follow_up ended_with", UNREADABLE, "::jsonb")
    yield from columns("batches", "error", {"long": LONG})
    yield from times("batches", "created_at sealed_at ended_at")
    yield from columns("reports", "report", ODD_JSON, "::jsonb")
    yield from columns("reports", "report", {
        "totals odd": report(totals={"orders": "x", "cards": None, "payments": 1.5}), "totals list": report(totals=[1]),
        "currencies odd": report(currencies=[5, None, {"currency": 7}, {"currency": "EUR"}], differences=5),
        "failures long": report(failures=[{"stage": "s" * 900, "reason": "r" * 900, **FIGURES}] * 5000),
        "failures odd": report(failures=[{"stage": "email"}, "x"], last_days=[{"day": 5}], complete="yes"),
    }, "::jsonb")  # fmt: skip
    yield from times("reports", "made_at")
    yield from columns("reports", "day", {day: day for day in DAYS})
    yield from columns("alerts", "detail", ODD_JSON, "::jsonb")
    yield from times("alerts", "since newest resolved_at")
    yield from times("alert_notifications", "notified_at notified_through end_notified_at failed_at sending_until")
    yield from columns("stages", "paused_by reason", {"null": None, "long": LONG})
    yield from times("stages", "paused_at")
    yield from times("circuits", "changed_at open_until")
    yield from columns("tokens", "prefix created_by", {"long": LONG})
    yield from columns("tokens", "scopes", {"twice": "{admin,admin}"}, "::text[]")
    yield from times("tokens", "created_at expires_at revoked_at last_used_at")
    yield from columns("ticks", "limits", ODD_JSON | {"odd limit": '{"email": "many"}'}, "::jsonb")
    yield from times("ticks", "started_at ended_at live_until")
    yield from columns("ticks", "source owner", {"long": LONG})
    # As long as their indexes allow.
    yield from columns("payments", "provider provider_ref named_order", {"long": LONG[:500]})
    yield from columns("cards", "provider provider_ref", {"long": LONG[:500]})
    yield from columns("orders", "details", UNREADABLE, "::jsonb")
    yield from times("payments", "created_at")
    yield from times("cards", "created_at")


PLANTS = {name: (statement, values) for name, statement, values in plants()}

# Rows of different areas are read by different answers, or side by side: neither hides the other.
AREAS = (
    "alerts alert_notifications",
    "batches",
    "operations",
    "orders payments cards",
    "reports",
    "ticks",
    "tokens",
    "webhook_endpoints",
)


def together() -> Iterator[list[str]]:
    """Names of plants that are walked at once: of each area one, and one of the jobs and what holds them back."""
    queues: dict[str, list[str]] = {}
    for name in PLANTS:
        table = name.replace(".", " ").split()[0]
        queues.setdefault(next((area for area in AREAS if table in area.split()), "jobs"), []).append(name)
    for row in itertools.zip_longest(*queues.values()):
        yield [name for name in row if name is not None]


@contextmanager
def without_triggers(world: World) -> Iterator[None]:
    """As rows come in that were there before the triggers were."""
    world.sql("set session_replication_role = replica")
    yield
    world.sql("reset session_replication_role")


def stock(world: World) -> None:
    """A row in each table that answers read, each of which has the id 1 where a show asks for it."""
    for statement in (
        "insert into public.giftcard_jobs (id, correlation_id, stage, status, finished_at, last_error, run_no)"
        " overriding system value values (1, 'flow', 'email', 'error', now(), 'E: x', 2),"
        " (4, 'schedule:1:2026-01-01T00:00:00Z', 'email', 'queued', null, null, 1)",
        "update public.giftcard_jobs set trigger_type = 'schedule' where id = 4",
        "insert into public.giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
        " finished_at) select i, 1, 1, 'email', 'FAILED', now(), now(), now() from generate_series(1, 4) i",
        "insert into public.giftcard_jobs_archive select i, 'default', case i when 2 then 'flow' else"
        " 'schedule:1:2026-01-01T00:01:00Z' end, 'report', '', now(), jsonb_build_object('status', 'completed',"
        " 'trigger_type', 'schedule') from generate_series(2, 3) i",
        "insert into public.giftcard_schedules (id, schedule, stage, next_at, last_job_id)"
        " overriding system value values (1, '* * * * *', 'email', '2030-01-01T00:00:00Z', 4)",
        "insert into public.giftcard_webhook_endpoints (tenant_id, url, events, secret_encrypted, created_at,"
        " updated_at) values ('default', 'https://example.com/', '{job.completed}', 'sealed', now(), now())",
        "insert into public.giftcard_tokens (name, hash, prefix, scopes, created_at, created_by)"
        " values ('shop', 'x', 'gct_', '{admin}', now(), 'kim')",
        "insert into public.giftcard_reports values ('default', '2026-01-01', now(), '{}')",
        "insert into public.giftcard_operations (action, state, reason, created_by, total, capped, until_id,"
        " created_at, finished_at) values ('cancel', 'stopped', 'why', 'kim', 1, false, 1, now(), now())",
        "insert into public.giftcard_batches (name, follow_up, sealed_at)"
        " values ('n', '{\"stage\": \"email\"}', now())",
        "insert into public.giftcard_alerts (condition, since) values ('dead_letters', now()), ('late:email', now()),"
        " ('odd', now())",
        "insert into public.giftcard_alert_notifications (condition, channel, notified_at)"
        " values ('dead_letters', 'url:x', now()), ('odd', 'url:x', now())",
        "insert into public.giftcard_stages (stage, paused_at, paused_by) values ('email', now(), 'me')",
        "insert into public.giftcard_circuits (circuit, state, failures, open_until)"
        " values ('email', 'open', 3, now())",
        "insert into public.giftcard_limits (kind, name, runs, per_second, until)"
        " values ('stage', 'email', 3, 1, '2099-01-01')",
        "insert into public.giftcard_rates (key, full_at) values ('stage email', now())",
        "insert into public.giftcard_orders (correlation_id, body_hash, amount, currency, created_at)"
        " values ('flow', 'x', 1, 'EUR', now()), ('free', 'x', 1, 'EUR', now())",
        "insert into public.giftcard_payments (tenant_id, correlation_id, provider, provider_ref, amount, currency,"
        " created_at) values ('default', 'flow', 'p', 'r', 1, 'EUR', now())",
        "insert into public.giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount,"
        " recorded_at) select 'default', 'p', 'c', id, 'captured', 1, now() from public.giftcard_payments",
        "insert into public.giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref,"
        " number_encrypted, number_hash, last4, amount, balance, currency, created_at)"
        " select 'default', 'flow', id, 'p', 'r', 'n', 'h', '1234', 1, 1, 'EUR', now() from public.giftcard_payments",
    ):  # fmt: skip
        world.sql(statement)
    world.tick()


def long_acts(world: World) -> list[int]:
    """Rows of the audit that are long; their ids, the newest first."""
    world.sql(
        "insert into public.giftcard_audit (at, by, action, subject, details) select now(), 'kim', 'requeue',"
        " repeat('é', 100000), jsonb_build_object('t', repeat('x', 300000)) from generate_series(1, 205) i"
    )
    return list(range(205, 0, -1))


def long_tokens(world: World) -> list[int]:
    """Tokens whose scopes are long; their ids, the newest first."""
    world.sql(
        "insert into public.giftcard_tokens (name, hash, prefix, scopes, created_at, created_by) select i, i, 'gct_',"
        " array_fill('jobs:write'::text, '{10000}'), now(), 'kim' from generate_series(1, 205) i"
    )
    return list(range(205, 0, -1))


def long_operations(world: World) -> list[int]:
    """Operations whose filters and reasons are long; their ids, the newest first."""
    world.sql(
        "insert into public.giftcard_operations (action, filter, reason, created_by, total, capped, until_id,"
        " created_at) select 'cancel', jsonb_build_object('error', repeat('x', 9000)), repeat('y', 900000), 'kim', 1,"
        " false, 1, now() from generate_series(1, 205) i"
    )
    return list(range(205, 0, -1))


def limits(world: World) -> list[tuple[str, str]]:
    """Limits with long reasons; their kinds and names, in their order."""
    world.sql(
        "insert into public.giftcard_limits (kind, name, runs, reason, set_by) select 'circuit', 'c' || i, 1,"
        " repeat('é', 100000), repeat('x', 100000) from generate_series(100, 350) i"
    )
    return [("circuit", f"c{number}") for number in range(100, 351)]


def long_batches(world: World) -> list[int]:
    """Batches whose follow-ups are long; their ids, the newest first."""
    world.sql(
        "insert into public.giftcard_batches (follow_up) select jsonb_build_object('stage', 'email', 'payload',"
        " jsonb_build_object('t', repeat('x', 400000))) from generate_series(1, 205) i"
    )
    return list(range(205, 0, -1))
