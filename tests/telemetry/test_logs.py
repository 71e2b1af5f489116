"""What is written about runs: one line at the end of each, and nothing that is secret or personal."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Outcome, Retry, Snooze
from lib.telemetry import events
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.servers import Vendor, a_vendor
from tests.support.world import ADMIN, API, CRON, ENCRYPTION_KEY, LOOKUP_KEY, World, an_order, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

FIELDS = {
    "event",
    "job_id",
    "correlation_id",
    "tenant_id",
    "stage",
    "attempt",
    "max_attempts",
    "run_no",
    "lock_owner",
    "started_at",
    "duration_ms",
    "error",
    "next_run_at",
}


def work(payload: Any, context: Any) -> Outcome:
    match payload.do:
        case "fail":
            raise TransientError("not now")
        case "die":
            raise PermanentError("never")
        case "snooze":
            return Snooze(delay=60, waiting_for="the vendor")
    return Complete()


ENDS = {
    "nothing": "run_completed",
    "fail": "run_failed",
    "die": "run_dead_lettered",
    "snooze": "run_snoozed",
}


def of_runs(lines: list[dict[str, Any]], job_id: int) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("job_id") == job_id]


@pytest.mark.parametrize("wish", ENDS)
def test_run_writes_a_line_at_its_end_and_at_debug_one_at_its_start(make_world: Make, log: Log, wish: str) -> None:
    world = make_world(handlers={"work": work})
    (job_id,) = world.enqueue("work", {"do": wish}, tenant_id="north", correlation_id="order-1")
    events.set_level("debug")
    world.tick()
    start, end = of_runs(log(), job_id)
    job = world.job(job_id)
    common = {
        "correlation_id": "order-1",
        "tenant_id": "north",
        "stage": "work",
        "attempt": 1,
        "max_attempts": 5,
        "run_no": 1,
        "lock_owner": job["lock_owner"],
        "started_at": end["started_at"],
    }
    assert set(start) >= FIELDS
    assert set(end) >= FIELDS
    assert start.items() >= (common | {"event": "run_started", "duration_ms": None, "error": None}).items()
    assert world.value("select %s::timestamptz = started_at from giftcard_job_history", end["started_at"])
    assert end.items() >= (common | {"event": ENDS[wish]}).items()
    assert 0 <= end["duration_ms"] < 10_000
    assert (end["error"] is None) == (wish in ("nothing", "snooze"))
    assert (end["next_run_at"] is None) == (wish in ("nothing", "die"))
    if end["next_run_at"]:
        assert world.value("select %s::timestamptz = scheduled_at from giftcard_jobs", end["next_run_at"])


def test_attempts_are_numbered_and_the_last_is_an_error(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": work}, GIFTCARD_MAX_ATTEMPTS=3)
    (job_id,) = world.enqueue("work", {"do": "fail"})
    for _ in range(3):
        world.tick()
        world.move(20)
    ends = of_runs(log(), job_id)
    assert [(end["event"], end["level"], end["attempt"], end["max_attempts"]) for end in ends] == [
        ("run_failed", "warning", 1, 3),
        ("run_failed", "warning", 2, 3),
        ("run_dead_lettered", "error", 3, 3),
    ]


def test_run_that_was_killed_has_its_end_written_by_the_tick_that_takes_it_over(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": work})
    (job_id,) = world.enqueue("work", status="running", attempts=1, run_no=1)
    world.tick()
    (end,) = of_runs(log(), job_id)
    assert set(end) >= FIELDS
    assert (end["event"], end["run_no"], end["error"].partition(":")[0]) == ("run_failed", 1, "Interrupted")


def test_lease_that_was_lost_is_told(make_world: Make, log: Log) -> None:
    def loses(payload: Any, context: Any) -> Outcome:
        world.sql("update giftcard_jobs set status = 'cancelled' where id = %s", context.job.id)
        return Complete()

    world = make_world(handlers={"work": loses})
    (job_id,) = world.enqueue("work")
    world.tick()
    (end,) = of_runs(log(), job_id)
    assert (end["event"], end["level"], end["outcome"]) == ("lease_lost", "warning", "complete")
    assert set(end) >= FIELDS


def test_tick_tells_what_it_did(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": work})
    world.enqueue("work", {"do": "nothing"})
    report = world.tick()
    (end,) = [line for line in log() if line["event"] == "tick_ended"]
    report.pop("advice")  # for the caller alone
    assert {name: end[name] for name in report} == report
    assert end["source"] == "cron"


def test_circuit_tells_when_it_opens_and_closes(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": work}, GIFTCARD_CIRCUIT_THRESHOLD=1)
    world.enqueue("work", {"do": "fail"})
    world.tick()
    world.sql('update giftcard_jobs set payload = \'{"do": "nothing"}\'')
    world.move(60)
    world.tick()
    told = [(line["event"], line["level"]) for line in log() if line["event"].startswith("circuit")]
    assert told == [("circuit_opened", "warning"), ("circuit_closed", "info")]


def test_terminal_shows_a_line_for_people() -> None:
    fields = {"job_id": 7, "attempt": 3, "max_attempts": 5, "error": "no", "next_run_at": None}
    record = logging.LogRecord("giftcards", logging.WARNING, "", 0, "run_failed", (), None)
    record.fields = fields
    line = events._Terminal().format(record)
    assert "\n" not in line
    assert all(part in line for part in ("WARN run_failed", "attempt 3/5", "job_id=7", "error=no"))
    assert "next_run_at" not in line


ADDRESSES = ["kate@example.com", "k.o'brien+cards@mail.example.co.uk", "käte@bücher.example", "KATE_1@EXAMPLE.COM"]
NUMBERS = ["9900123412345678", "9900 1234 1234 5678", "9900-1234-1234-5678", "4111111111111111", "378282246310005"]
VENDOR_TOKEN, SMTP_PASSWORD = "vendor-token-of-tests", "smtp-password-of-tests"
SECRETS = [CRON, ADMIN, API, ENCRYPTION_KEY, LOOKUP_KEY, VENDOR_TOKEN, SMTP_PASSWORD]
OTHERS = ["Bearer abcdef0123456789", "postgresql://user:hunter2-secret@db/x", "Basic dXNlcjpodW50ZXIy"]
NEEDLES = [*ADDRESSES, *NUMBERS, *SECRETS, "abcdef0123456789", "hunter2-secret", "dXNlcjpodW50ZXIy"]


def told_everywhere(world: World, log: Log, *answers: Any) -> str:
    """Everything that people and machines get to see of jobs."""
    tables = ("giftcard_job_history", "giftcard_ticks", "giftcard_circuit_changes", "giftcard_circuits")
    rows = [world.sql(f"select * from {table}") for table in tables]
    errors = world.sql("select last_error, context from giftcard_jobs")
    status = world.client.get("/api/status", headers=bearer(ADMIN)).json
    return str([rows, errors, status, log(), answers])


@pytest.mark.parametrize("way", ["raised", "raised for good", "returned", "returned for good", "snoozed", "chained"])
def test_nothing_secret_or_personal_that_a_handler_says_is_kept(make_world: Make, log: Log, way: str) -> None:
    planted = " | ".join([*ADDRESSES, *NUMBERS, *SECRETS, *OTHERS])

    def says(payload: Any, context: Any) -> Outcome:
        part = planted.split(" | ")[payload.part]
        said = f"no: <{part}>, '{part}'; {part}"
        match way:
            case "raised":
                raise ValueError(said)
            case "raised for good":
                raise PermanentError(said)
            case "returned":
                return Retry(delay=5, error=said)
            case "returned for good":
                return Error(error=said)
            case "snoozed":
                return Snooze(delay=5, waiting_for=said)
        try:
            raise KeyError(said)
        except KeyError as cause:
            raise RuntimeError("no") from cause

    smtp = f"smtp://user:{SMTP_PASSWORD}@localhost"
    world = make_world(
        handlers={"work": says},
        GIFTCARD_PAYMENT_TOKEN=VENDOR_TOKEN,
        SMTP_URL=smtp,
        GIFTCARD_CIRCUIT_THRESHOLD=2,
        GIFTCARD_CONCURRENCY=50,
        GIFTCARD_JOBS_PER_CRON_RUN=100,
    )
    for part in range(len(planted.split(" | "))):
        world.enqueue("work", {"part": part})
    report = world.tick()
    assert report["retried"] + report["errored"] + report["snoozed"] == report["started"] > 10
    told = told_everywhere(world, log, report)
    assert [needle for needle in NEEDLES if needle in told] == []


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with a_vendor() as vendor:
        yield vendor


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


def test_nothing_personal_of_an_order_is_told_whatever_happens_to_it(
    make_world: Make, log: Log, vendor: Vendor, mail_server: MailServer
) -> None:
    vendor.then(503, "cut", "garbage")
    mail_server.rcpt = "450 <kate@example.com> is full"
    world = make_world(
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=vendor.url,
        GIFTCARD_PAYMENT_TOKEN=VENDOR_TOKEN,
        SMTP_URL=mail_server.url,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
    )
    message = "My card 4111111111111111 and 9900 1234 1234 5678"
    answers = [world.submit(an_order(message=message), Idempotency_Key=f"key-{n}") for n in range(2)]
    answers += [world.submit(an_order(customer={"email": "kate@example"}))]
    world.enqueue("customer_ingest", an_order(customer={"email": "kate@example.com@"}, **{"kate@example.com": 1}))
    reports = []
    for _ in range(8):
        reports.append(world.tick())
        world.move(60)
    assert world.statuses()["error"] == 3
    assert world.value("select count(*) from giftcard_cards") == 2
    told = told_everywhere(world, log, reports, [answer.text for answer in answers])
    numbers = [row["last4"] for row in world.sql("select last4 from giftcard_cards")]
    assert all(number in told for number in numbers)
    assert [needle for needle in [*NEEDLES, "Rodgers", "My card"] if needle in told] == []
