"""How the build serves under Vercel's own runtime, over a real Postgres."""

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from tests.crash.processes import wait_for
from tests.support.mail_server import a_mail_server
from tests.support.servers import a_vendor
from tests.support.world import ADMIN, API, CRON, an_order, bearer
from tests.vercel.conftest import Serve
from tests.vercel.serving import Function

pytestmark = pytest.mark.slow

DOOR = "/api/cron/giftcard-jobs"
OF_THE_CLOCK = {"user-agent": "vercel-cron/1.0", "x-vercel-cron-schedule": "* * * * *"}


def _tick(function: Function, **headers: str) -> dict[str, Any]:
    answer = function.request("GET", DOOR, headers=bearer(CRON) | OF_THE_CLOCK | headers)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


def _order(function: Function, correlation_id: str, **order: Any) -> None:
    body = {"correlation_id": correlation_id} | an_order(**order)
    answer = function.request("POST", "/api/v1/giftcards", json=body, headers=bearer(API))
    assert answer.status_code == 202, answer.text


def _all(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


# Doors


def test_it_is_up_as_soon_as_it_has_started(serve: Serve) -> None:
    answer = serve().request("GET", "/api/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "up"})


def test_without_a_database_it_starts_and_says_so(serve: Serve) -> None:
    answer = serve(DATABASE_URL="").request("GET", "/api/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "down"})


def test_a_wrong_setting_is_named_in_every_response(serve: Serve) -> None:
    answer = serve(GIFTCARD_CONCURRENCY="0").request("GET", "/api/health")
    assert (answer.status_code, answer.json()["title"]) == (503, "a setting is not valid")
    assert answer.json()["detail"].startswith("GIFTCARD_CONCURRENCY: must be a whole number from 1 to 100")


@pytest.mark.parametrize("headers", [{}, OF_THE_CLOCK, bearer("another"), {"x-vercel-cron": "1"}])
def test_a_cron_call_without_the_secret_is_refused_and_leaves_no_trace(
    serve: Serve, connection: psycopg.Connection[Any], headers: dict[str, str]
) -> None:
    answer = serve().request("GET", DOOR, headers=headers)
    assert (answer.status_code, answer.json()["title"]) == (401, "not allowed")
    assert answer.headers["content-type"] == "application/problem+json"
    assert _all(connection, "select * from giftcard_ticks") == []


@pytest.mark.parametrize(
    ("name", "asked_for"),
    [("a:b@c", "a:b@c"), ("a:b@c", "a%3Ab%40c"), ("ü ñ", "%C3%BC%20%C3%B1"), ("a%41", "a%2541"), ("a+b", "a+b")],
)
def test_a_name_in_a_path_is_found_however_it_is_spelt(
    serve: Serve, connection: psycopg.Connection[Any], name: str, asked_for: str
) -> None:
    """The runtime hands paths over undecoded. If no more, `a%41` is taken for `aA`: lib/web/paths.py can go."""
    jobs = "insert into giftcard_jobs (correlation_id, stage) values (%s, 'email'), ('aA', 'email')"
    connection.execute(jobs, [name])
    answer = serve().request("GET", f"/api/v1/giftcards/{asked_for}?tenant_id=default", headers=bearer(API))
    assert (answer.status_code, answer.json().get("correlation_id")) == (200, name)


def test_what_is_not_there_is_told_as_everywhere(serve: Serve) -> None:
    function = serve()
    answer = function.request("GET", "/api/no/such/page")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert function.request("HEAD", "/api/health").status_code == 200


def test_the_page_is_served_with_its_templates_and_static_files(serve: Serve) -> None:
    function = serve()
    page = function.request("GET", "/sign-in")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for address in re.findall(r'"(/static/[^"]+)"', page.text):
        assert function.request("GET", address).status_code == 200, address
    assert function.request("GET", "/").headers["location"] == "/sign-in"
    assert function.request("GET", "/o/none").status_code == 404


# Work


def test_a_cron_call_runs_jobs_and_its_log_lines_belong_to_it(
    serve: Serve, connection: psycopg.Connection[Any]
) -> None:
    function = serve()
    _order(function, "first")
    report = _tick(function)
    # Mails are not set up here: the last job waits.
    assert (report["completed"], report["parked"]["email"]) == (4, "SMTP_URL")
    assert _all(connection, "select source, completed from giftcard_ticks") == [("cron", 4)]
    lines = [json.loads(line) for line in function.logged() if line.startswith("{")]
    assert [line["event"] for line in lines].count("run_completed") == 4
    assert lines[-1]["event"] == "tick_ended"


def test_a_person_can_trigger_a_tick(serve: Serve, connection: psycopg.Connection[Any]) -> None:
    function = serve()
    _order(function, "first")
    answer = function.request("POST", "/api/jobs/run", json={"limit": 1}, headers=bearer(ADMIN))
    assert (answer.status_code, answer.json()["completed"]) == (200, 1)
    assert _all(connection, "select source from giftcard_ticks") == [("manual",)]
    assert function.request("POST", "/api/jobs/run", headers=bearer(CRON)).status_code == 403


def test_an_order_becomes_a_card_and_a_mail(serve: Serve) -> None:
    with a_vendor() as bank, a_mail_server() as mail:
        function = serve(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL=bank.url, SMTP_URL=mail.url)
        _order(function, "first")
        assert _tick(function)["completed"] == 5
        flow = function.request("GET", "/api/v1/giftcards/first", headers=bearer(API)).json()
    assert [job["status"] for job in flow["jobs"]] == ["completed"] * 5
    assert [(taken.amount, taken.currency) for taken in bank.taken] == [(2500, "USD")]
    (message,) = mail.mails
    assert "kate@example.com" in message["To"]
    assert flow["card"]["last4"].isdigit()


def test_one_instance_serves_others_while_it_ticks(serve: Serve) -> None:
    with a_vendor() as bank, ThreadPoolExecutor(1) as clock:
        function = serve(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL=bank.url)
        bank.then("silent")
        _order(function, "first")
        tick = clock.submit(_tick, function)
        wait_for(lambda: bool(bank.taken), seconds=20, what="the payment")
        assert function.request("GET", "/api/health").status_code == 200
        assert not tick.done()
        bank.closing.set()
        assert tick.result(timeout=20)["retried"] == 1


# Its end


def test_a_tick_goes_on_when_its_caller_hangs_up(serve: Serve, connection: psycopg.Connection[Any]) -> None:
    with a_vendor() as bank:
        function = serve(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL=bank.url)
        bank.then("silent")
        _order(function, "first")
        with pytest.raises(httpx.ReadTimeout):
            function.request("GET", DOOR, headers=bearer(CRON), timeout=1)
        wait_for(lambda: bool(bank.taken), seconds=20, what="the payment")
        bank.closing.set()
        ended = "select stopped_because, completed, retried from giftcard_ticks where ended_at is not null"
        wait_for(lambda: bool(_all(connection, ended)), seconds=20, what="the end of the tick")
        assert _all(connection, ended) == [("drained", 2, 1)]
        assert function.request("GET", "/api/health").status_code == 200


def test_what_a_killed_instance_had_begun_the_next_tick_takes_over(
    serve: Serve, connection: psycopg.Connection[Any]
) -> None:
    with a_vendor() as bank, ThreadPoolExecutor(1) as clock:
        settings = {"GIFTCARD_PAYMENT_PROVIDER": "http", "GIFTCARD_PAYMENT_URL": bank.url}
        killed = serve(**settings)
        bank.then("silent")
        _order(killed, "first")
        tick = clock.submit(_tick, killed)
        wait_for(lambda: bool(bank.taken), seconds=20, what="the payment")
        killed.signal(signal.SIGKILL)
        assert isinstance(tick.exception(timeout=20), httpx.HTTPError)
        next_one = serve(**settings)
        assert _tick(next_one)["interrupted"] == 0, "its lease had not ended yet"
        connection.execute("update giftcard_jobs set lease_expires_at = clock_timestamp() where status = 'running'")
        assert _tick(next_one)["interrupted"] == 1
        connection.execute("update giftcard_jobs set scheduled_at = clock_timestamp() where status = 'queued'")
        assert _tick(next_one)["completed"] == 2
    assert len(bank.taken) == 1, "the customer has paid twice"
    assert len(set(bank.keys)) == 1
    runs = "select result from giftcard_job_history where stage = 'payment' order by run_no"
    assert _all(connection, runs) == [("INTERRUPTED",), ("SUCCESS",)]


def test_told_to_leave_an_idle_instance_leaves_within_the_platforms_patience(serve: Serve) -> None:
    function = serve()
    assert _tick(function)["stopped_because"] == "drained"
    began = time.monotonic()
    function.signal(signal.SIGTERM)
    assert function.process.wait(10) == -signal.SIGTERM
    assert time.monotonic() - began < 0.5


def _is_leaving(function: Function) -> bool:
    """Return whether the main thread, which accepts requests, waits in the handler instead."""
    try:
        function.request("GET", "/api/health", timeout=0.5)
    except httpx.TimeoutException:
        return True
    return False


def test_told_to_leave_in_a_tick_it_begins_nothing_more(serve: Serve, connection: psycopg.Connection[Any]) -> None:
    with a_vendor() as bank, ThreadPoolExecutor(1) as clock:
        function = serve(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL=bank.url, GIFTCARD_CONCURRENCY="1")
        bank.then("silent")
        _order(function, "first")
        tick = clock.submit(_tick, function)
        wait_for(lambda: bool(bank.taken), seconds=20, what="the payment")
        _order(function, "second")
        function.signal(signal.SIGTERM)
        wait_for(lambda: _is_leaving(function), seconds=20, what="the handler of SIGTERM")
        bank.closing.set()
        function.process.wait(20)
        tick.exception(timeout=20)  # the answer may be lost with the process
    assert _all(connection, "select stopped_because from giftcard_ticks") == [("shutdown",)]
    # A claim that was on its way is released: it is a run of no attempt.
    begun = "select status, attempts from giftcard_jobs where correlation_id = 'second'"
    assert _all(connection, begun) == [("queued", 0)]
