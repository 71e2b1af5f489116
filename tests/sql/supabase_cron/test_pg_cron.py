"""The real pg_cron, on the server that Debian has it for, wakes at the full minute and calls the real door.

Not real here: pg_net and the vault, whose packages cannot be had (tests/sql/supabase_cron/net_and_vault.sql).
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from dev import ROOT
from dev.migrate import migrate
from lib.job import Complete
from tests.crash.processes import wait_for
from tests.sql.supabase_cron.debian import PG_CRON, installed_with, server
from tests.sql.supabase_cron.pg_net import work_off
from tests.sql.supabase_cron.serving import served
from tests.support.optional import lacks
from tests.support.world import CRON, World, a_world

Row = dict[str, Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A database with the application's schema and pg_cron."""
    installed = installed_with("pg_cron")
    if installed is None:
        lacks("pg_cron is not installed (Debian, Ubuntu: apt install postgresql-<version>-cron)")
    with server(installed, settings=f"{PG_CRON}log_statement = 'all'\nlog_min_duration_statement = 0\n") as url:
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute((ROOT / "tests/sql/supabase_cron/net_and_vault.sql").read_bytes())
            # As in Supabase's dashboard, whose statements this server does not log.
            connection.execute("set log_statement = 'none'; set log_min_duration_statement = -1")
            connection.execute("select vault.create_secret(%s, 'giftcard_cron_secret')", [CRON])
        yield url


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection[Row]]:
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def world(url: str) -> Iterator[World]:
    with a_world(url, handlers={"work": lambda payload, context: Complete()}) as world:
        yield world


def _start(database: psycopg.Connection[Row], url: str) -> None:
    """As sql/supabase_cron.sql does, by the function that it calls."""
    database.execute("select giftcard_start_clock(p_url => %s)", [url])


def _rows(database: psycopg.Connection[Row], query: str) -> Callable[[], list[Row]]:
    return lambda: database.execute(query.encode()).fetchall()


@pytest.mark.slow
def test_at_the_full_minute_pg_cron_calls_the_door_and_jobs_run(
    database: psycopg.Connection[Row], world: World
) -> None:
    world.enqueue("work", count=3)
    details = _rows(database, "select * from cron.job_run_details where command like '%http_post%'")
    with served(world.app) as url:
        _start(database, url)
        # The one clock that no test can move.
        wait_for(lambda: bool(details()), seconds=63, what="the minute of pg_cron")
        wait_for(lambda: details()[0]["status"] == "succeeded", seconds=5, what="the end of pg_cron's job")
        assert time.gmtime().tm_sec < 10
        with psycopg.connect(world.url, autocommit=True) as worker:
            assert work_off(worker) == 1
    (answer,) = _rows(database, "select * from net._http_response")()
    assert (answer["status_code"], answer["timed_out"], answer["error_msg"]) == (200, False, None)
    assert world.statuses() == {"completed": 3}
    (tick,) = world.sql("select source, stopped_because, completed from giftcard_ticks")
    assert tick == {"source": "cron", "stopped_because": "drained", "completed": 3}
    log = (Path(world.url.partition("?host=")[2]) / "log").read_text(encoding="utf-8")
    assert "net.http_post" in log, "each statement is logged"
    assert CRON not in log


@pytest.mark.slow
def test_pg_cron_takes_the_same_job_again_and_lets_both_be_removed(database: psycopg.Connection[Row]) -> None:
    jobs = _rows(database, "select jobname, schedule, command, active from cron.job order by jobname")
    for host in ("one", "two", "two"):
        _start(database, f"https://{host}.example")
    names = [(job["jobname"], job["schedule"], job["active"]) for job in jobs()]
    assert names == [("giftcard-jobs", "* * * * *", True), ("giftcard-jobs-prune", "7 3 * * *", True)]
    assert "https://two.example/api/cron/giftcard-jobs" in jobs()[0]["command"]
    database.execute(jobs()[1]["command"].encode())  # its statement is one that this pg_cron's tables allow
    database.execute("select giftcard_stop_clock()")
    assert jobs() == []
    assert _rows(database, "select * from cron.job_run_details")() == []
    database.execute("select giftcard_stop_clock()")
