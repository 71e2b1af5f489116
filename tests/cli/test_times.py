"""What the commands print for people has times in UTC, to the second: 2026-01-31 12:00:00Z. --json keeps them whole."""

import re

import pytest

from tests.cli.conftest import Door
from tests.support.world import World, an_order

# A fraction of a second, another zone, a T between day and time.
OTHER = re.compile(r"\d\d:\d\d:\d\d(\.\d|[+-]\d\d)|\d\d:\d\d[+-]\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d")
AT = "2026-01-31T12:00:00.123456+02:00"
LATER = "2050-01-31T12:00:00.123456+02:00"
COMMANDS = (
    *("list", "status", "stuck", "errors", "errors --since 2020-01-01T00:00:00Z", "circuits", "precision", "audit"),
    *("schedules list", "schedules show 1", "schedules history 1", "webhooks list", "webhooks show 1", "tokens list"),
    *("reports list", "orders show flow", "orders reconcile", "doctor", "history 1", "keys status"),
)


@pytest.fixture
def timed(world: World) -> World:
    """A row of each kind, whose times have microseconds."""
    world.submit(an_order(correlation_id="flow"))
    world.drain()
    jobs = {
        "due": {"scheduled_at": AT},
        "later": {"scheduled_at": LATER},
        "dead": {"status": "error", "finished_at": AT, "last_error": "E"},
        "reviving": {"status": "error", "finished_at": AT, "revive_at": LATER, "last_error": "E"},
        "killed": {"status": "running", "lease_expires_at": AT, "locked_at": AT},
        "running": {"status": "running", "lease_expires_at": LATER, "locked_at": AT, "updated_at": AT},
    }
    for name, columns in jobs.items():
        world.add("email" if name != "due" else "payment", correlation_id=name, **columns)
    archived = world.add("email", correlation_id="archived", status="cancelled")
    world.sql("select public.giftcard_archive_jobs(array[%s::bigint], %s)", archived, AT)
    for statement in (
        "insert into public.giftcard_circuits (circuit, state, failures, open_until) values ('payment', 'open', 3, %s)",
        "insert into public.giftcard_faulty_rows select 'circuit', 'x', 'E', %s, now(), now() + interval '9 min'",
        "insert into public.giftcard_stages (stage, paused_at, paused_by) values ('report', %s, 'ann')",
        "insert into public.giftcard_schedules (schedule, stage, next_at) values ('* * * * *', 'email', %s)",
        "insert into public.giftcard_schedules (schedule, stage, paused_at) values ('* * * * *', 'email', %s)",
        "insert into public.giftcard_webhook_endpoints (tenant_id, url, events, secret_encrypted, created_at,"
        " updated_at, previous_secret_until) select 'default', 'https://a.example', '{job.completed}', 'x', t, t,"
        " '2050-01-01 00:00:00.5Z' from (select %s::timestamptz) x(t)",
        "insert into public.giftcard_tokens (name, hash, prefix, scopes, created_at, expires_at, created_by)"
        " select 'shop', 'x', 'gct_', '{admin}', t, t, 'kim' from (select %s::timestamptz) x(t)",
        "insert into public.giftcard_reports values ('default', '2026-01-01', %s, '{}')",
    ):
        world.sql(statement, AT)
    return world


def test_times_are_in_utc_and_to_the_second(timed: World, direct: Door) -> None:
    ids = timed.sql("select id from public.giftcard_jobs union all select id from public.giftcard_jobs_archive")
    for command in (*COMMANDS, *(f"show {row['id']}" for row in ids)):
        result = direct.run(*command.split())
        assert result.exit_code in (0, 1), (command, result.stderr)
        # Payload and context are the job's own.
        lines = [line for line in result.stdout.splitlines() if not re.match(r"(payload|context) ", line)]
        assert [line for line in lines if OTHER.search(line)] == [], command
    assert "2026-01-31T10:00:00.123456" in direct.says("list", "--json")


def test_the_sentences_have_the_same_form_as_the_tables(timed: World, direct: Door) -> None:
    text = direct.says("list")
    assert "circuit payment is open until 2026-01-31 10:00:00Z" in text or "circuit payment is half-open" in text
    assert "due at 2050-01-31 10:00:00Z" in text
    assert "revives at 2050-01-31 10:00:00Z" in text
