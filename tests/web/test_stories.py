"""The two stories of cases.json, told through the clock's door, with time moved."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cases import CASES
from tests.support.mail_server import MailServer
from tests.support.world import World

DAY = 24 * 3600
CODE_STORY = CASES["duplicate_code_story"]
MAIL_STORY = CASES["mail_server_down_story"]


def take_all_codes(world: World, name: str) -> None:
    world.sql(
        "insert into public.giftcard_customers"
        " (external_id, email, given_name, personal_code, created_at, updated_at)"
        " select 'taken-' || n, n || '@example.com', %s, %s || lpad(n::text, 4, '0'), now(), now()"
        " from generate_series(0, 9999) n",
        name.title(),
        name,
    )


def starts(world: World, job_id: int) -> list[float]:
    """Seconds from the first start of a job to each of its starts."""
    return [
        float(row["after"])
        for row in world.sql(
            "select extract(epoch from started_at - min(started_at) over ()) as after"
            " from public.giftcard_job_history where job_id = %s order by run_no",
            job_id,
        )
    ]


def just_after(expected: list[int]) -> Any:
    """These moments, or a little later: calls take their time."""
    return pytest.approx([moment + 1 for moment in expected], abs=1)


@pytest.fixture
def ordered(world: World) -> World:
    """Kate has ordered, is a customer, and every code that begins with KATE is taken."""
    take_all_codes(world, "KATE")
    assert world.submit().status_code == 202
    world.sql("select public.giftcard_pause('personal_code', 'test')")
    assert world.tick()["completed"] == 1
    world.sql("select public.giftcard_resume('personal_code', 'test')")
    return world


def fail_until_dead(world: World) -> list[dict[str, Any]]:
    """Ticks at each moment the report says something is due, until nothing is; the reports."""
    reports = [world.tick()]
    while world.job(stage="personal_code")["status"] == "queued":
        world.move_to(reports[-1]["next_due_at"])
        reports.append(world.tick())
    return reports


def test_customer_whose_codes_are_all_taken_is_tried_five_times_and_then_dead(ordered: World) -> None:
    reports = fail_until_dead(ordered)
    job = ordered.job(stage="personal_code")
    runs = ordered.history(job["id"])
    assert len(reports) == CODE_STORY["max_attempts"] == len(runs)
    for run, expected in zip(runs, CODE_STORY["after_failure"], strict=True):
        assert (run["attempt"], run["result"]) == (expected["attempt"], "FAILED")
        assert run["error"].startswith("DuplicatePersonalCode")
        waits = expected.get("delay", expected.get("revives_after_hours", 0) * 3600)
        assert (run["next_run_at"] - run["finished_at"]).total_seconds() == waits
    assert starts(ordered, job["id"]) == just_after(CODE_STORY["starts_after_seconds"])
    assert [report["retried"] for report in reports] == [1, 1, 1, 1, 0]
    assert [report["errored"] for report in reports] == [0, 0, 0, 0, 1]
    assert (job["status"], job["attempts"]) == ("error", 5)
    assert job["scheduled_at"] == job["revive_at"]
    assert job["last_error"].startswith("DuplicatePersonalCode")


def test_taken_code_opens_no_circuit(ordered: World) -> None:
    reports = fail_until_dead(ordered)
    assert not any(report["circuits_opened"] for report in reports)
    assert ordered.sql("select * from public.giftcard_circuits where failures > 0 or state <> 'closed'") == []


def test_no_attempt_is_made_before_its_time(ordered: World) -> None:
    report = ordered.tick()
    ordered.move(4)
    early = ordered.tick()
    assert (early["started"], early["next_due_at"] is None, report["started"]) == (0, False, 1)
    assert len(ordered.history(ordered.job(stage="personal_code")["id"])) == 1


def test_dead_letter_revives_after_a_day_and_is_whole_again_once_a_code_is_free(ordered: World) -> None:
    fail_until_dead(ordered)
    ordered.move(DAY - 60)
    early = ordered.tick()
    assert (early["revived"], early["started"]) == (0, 0)
    ordered.move(60)
    # Still taken: the first of a whole new set of attempts.
    again = ordered.tick()
    job = ordered.job(stage="personal_code")
    assert (again["revived"], again["started"], again["retried"]) == (1, 1, 1)
    assert (job["status"], job["attempts"], job["revivals"], job["run_no"]) == ("queued", 1, 1, 6)
    ordered.sql("update public.giftcard_customers set personal_code = null where personal_code = 'KATE1520'")
    ordered.move_to(again["next_due_at"])
    while (report := ordered.tick())["started"]:
        assert report["completed"] == report["started"]
    flow = ordered.flow(job["correlation_id"])
    assert [(step["stage"], step["status"]) for step in flow["jobs"]] == [
        (stage, "completed") for stage in ("customer_ingest", "personal_code", "payment", "issue_card", "email")
    ]
    assert flow["card"]["amount"] == 2500
    assert (
        ordered.value("select personal_code from public.giftcard_customers where external_id = 'CUST-1520'")
        == "KATE1520"
    )
    assert ordered.job(job["id"])["last_error"] is None


def test_dead_letter_that_has_revived_three_times_stays_until_a_person_acts(ordered: World) -> None:
    for revivals in range(4):
        fail_until_dead(ordered)
        job = ordered.job(stage="personal_code")
        assert (job["revivals"], job["revive_at"] is None) == (revivals, revivals == 3)
        ordered.move(DAY)
    assert ordered.tick()["started"] == 0
    assert len(ordered.history(job["id"])) == 20


@pytest.mark.parametrize("hours", CASES["revival_hours"]["examples"])
def test_revival_comes_after_the_hours_that_are_set(make_world: Callable[..., World], hours: int) -> None:
    world = make_world(GIFTCARD_FAILED_JOB_RETRY_HOURS=hours, GIFTCARD_MAX_ATTEMPTS=1)
    take_all_codes(world, "KATE")
    world.submit()
    world.tick()
    world.tick()
    world.move(hours * 3600 - 60)
    assert world.tick()["revived"] == 0
    world.move(61)
    assert world.tick()["revived"] == 1


def test_revival_hours_of_zero_revive_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(
        GIFTCARD_FAILED_JOB_RETRY_HOURS=CASES["revival_hours"]["off"],
        GIFTCARD_MAX_ATTEMPTS=1,
        GIFTCARD_DEAD_LETTER_DAYS=0,
    )
    take_all_codes(world, "KATE")
    world.submit()
    world.tick()
    world.tick()
    world.move(366 * DAY)
    assert world.tick()["revived"] == 0
    assert world.job(stage="personal_code")["revive_at"] is None


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """Down."""
    server = MailServer()
    yield server
    server.down()


@pytest.fixture
def only_mail_is_left(make_world: Callable[..., World], mail_server: MailServer) -> World:
    """An order with its card made, whose mail is the one job left."""
    world = make_world(SMTP_URL=mail_server.url, GIFTCARD_STAGE_EMAIL_JITTER=0)
    world.submit()
    world.sql("select public.giftcard_pause('email', 'test')")
    while world.tick()["started"]:
        pass
    world.sql("select public.giftcard_resume('email', 'test')")
    assert world.statuses() == {"completed": 4, "queued": 1}
    return world


def test_mail_server_that_is_down_opens_the_circuit_and_the_dead_letter_revives(
    only_mail_is_left: World, mail_server: MailServer
) -> None:
    world = only_mail_is_left
    reports = [world.tick()]
    job_id = world.job(stage="email")["id"]
    while world.job(job_id)["status"] == "queued":
        world.move_to(reports[-1]["next_due_at"])
        reports.append(world.tick())
    assert starts(world, job_id) == just_after(MAIL_STORY["starts_after_seconds"])
    assert [report["circuits_opened"] for report in reports] == [[], [], ["email"], ["email"], ["email"]]
    changes = world.sql("select from_state, to_state, cause from public.giftcard_circuit_changes order by id")
    assert [(change["from_state"], change["to_state"]) for change in changes] == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
    ]
    job = world.job(job_id)
    assert (job["status"], job["attempts"]) == (MAIL_STORY["then"], 5)
    assert "mail server" in job["last_error"]
    assert mail_server.connections == 0

    mail_server.up()
    world.move_to(job["revive_at"])
    report = world.tick()
    assert (report["revived"], report["completed"], report["circuits_closed"]) == (1, 1, ["email"])
    assert world.job(job_id)["status"] == "completed"
    (mail,) = mail_server.mails
    assert mail_server.recipients == [["kate@example.com"]]
    assert mail["Subject"] == "Your $25.00 gift card"


def test_open_circuit_lets_no_mail_start_and_uses_up_no_attempt(only_mail_is_left: World) -> None:
    world = only_mail_is_left
    reports = [world.tick()]
    for _ in range(2):
        world.move_to(reports[-1]["next_due_at"])
        reports.append(world.tick())
    before = world.job(stage="email")
    world.move(50)
    assert world.tick()["started"] == 0
    assert world.job(before["id"])["attempts"] == before["attempts"] == 3


def test_everything_else_goes_on_while_the_mail_circuit_is_open(only_mail_is_left: World) -> None:
    world = only_mail_is_left
    for _ in range(3):
        world.move_to(world.tick()["next_due_at"])
    world.submit(
        {"customer": {"given_name": "Ann", "email": "ann@example.com"}, "amount": {"amount": 100, "currency": "USD"}}
    )
    assert world.tick()["completed"] == 4
    assert world.value("select count(*) from public.giftcard_cards") == 2
