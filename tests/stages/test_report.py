"""The stage report: whose day it makes, who gets it by mail, and what a mail server can do to it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import World, an_order

Make = Callable[..., World]

ANN, BEN = "ann@ops.example", "ben@ops.example"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


class ChoosyServer(MailServer):
    """One that says no to some: what, by address."""

    says: Mapping[str, str] = {}

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, rest: Any) -> str:  # noqa: N802
        if address in self.says:
            return self.says[address]
        return await super().handle_RCPT(server, session, envelope, address, rest)


@pytest.fixture
def choosy() -> Iterator[ChoosyServer]:
    server = ChoosyServer()
    server.up()
    yield server
    server.down()


@pytest.fixture
def yesterday() -> str:
    return str(datetime.now(UTC).date() - timedelta(days=1))


def run(world: World, payload: Any = None, **columns: Any) -> dict[str, Any]:
    """A job of the stage, after a tick."""
    (job_id,) = world.enqueue("report", payload, **columns)
    world.tick()
    return world.job(job_id)


def kept(world: World) -> list[tuple[str, str, int]]:
    rows = world.sql("select tenant_id, day::text, report from giftcard_reports order by tenant_id, day")
    return [(row["tenant_id"], row["day"], row["report"]["totals"]["cards"]) for row in rows]


def with_a_card_of_yesterday(world: World, tenant: str = "default") -> None:
    correlation_id = world.submit(an_order(tenant_id=tenant)).json["correlation_id"]
    while world.tick()["started"]:
        pass
    for table in ("orders", "payments", "cards"):
        moved = f"update giftcard_{table} set created_at = created_at - interval '1 day' where correlation_id = %s"
        world.sql(moved, correlation_id)


# What is made


def test_without_a_word_it_is_yesterday_of_the_jobs_tenant_and_nothing_is_mailed(
    world: World, tmp_path: Path, yesterday: str
) -> None:
    with_a_card_of_yesterday(world, "acme")
    (tmp_path / "mails").rename(tmp_path / "before")
    job = run(world, tenant_id="acme")
    assert (job["status"], job["context"]) == ("completed", {"day": yesterday})
    assert kept(world) == [("acme", yesterday, 1)]
    assert not (tmp_path / "mails").exists()


def test_the_payload_names_tenant_and_day(world: World) -> None:
    assert run(world, {"tenant_id": "acme", "day": "2026-01-31"})["status"] == "completed"
    assert kept(world) == [("acme", "2026-01-31", 0)]


def test_a_star_is_every_tenant_in_which_something_happened(world: World, yesterday: str) -> None:
    for tenant in ("acme", "default"):
        with_a_card_of_yesterday(world, tenant)
    world.submit(an_order(tenant_id="only today"))
    world.sql("update giftcard_jobs set status = 'cancelled' where status = 'queued'")
    first = run(world, {"tenant_id": "*"})
    assert first["status"] == "completed"
    assert kept(world) == [("acme", yesterday, 1), ("default", yesterday, 1)]
    following = world.sql("select * from giftcard_jobs where stage = 'report' and dedup_key <> '' order by dedup_key")
    assert [job["dedup_key"] for job in following] == ["acme", "default"]
    assert {job["correlation_id"] for job in following} == {first["correlation_id"]}


def test_a_star_on_a_quiet_day_makes_no_report(world: World) -> None:
    assert run(world, {"tenant_id": "*"})["status"] == "completed"
    assert kept(world) == []


def test_a_report_that_succeeds_a_day_late_is_still_about_the_first_day(make_world: Make, yesterday: str) -> None:
    with a_mail_server() as server:
        server.rcpt = "450 try later"
        world = make_world(SMTP_URL=server.url, REPORT_RECIPIENTS=ANN, MAX_REPORT_RETRY_ATTEMPTS=1)
        job = run(world)
        assert (job["status"], job["revive_at"] is not None) == ("error", True)
        # Revived a day later: what it saw the first time is as old as it is.
        world.sql("update giftcard_effects set result = jsonb_build_object('day', '2026-01-31') where name = 'day'")
        world.move_to(job["revive_at"])
        server.rcpt = None
        world.tick()
        assert world.job(job["id"])["context"] == {"day": "2026-01-31"}
        assert [day for _, day, _ in kept(world)] == ["2026-01-31", yesterday]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"day": "31.1.2026"}, "day"),
        ({"day": "2026-02-30"}, "day"),
        ({"day": "20260131"}, "day"),
        ({"day": 7}, "day"),
        ({"day": None, "tenant": "acme"}, "tenant"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"tenant_id": 7}, "tenant_id"),
    ],
)
def test_a_payload_that_is_not_valid_is_a_dead_letter_that_says_where(world: World, payload: Any, field: str) -> None:
    job = run(world, payload)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert job["last_error"].startswith(f"PermanentError: payload: {field} ")


def test_a_day_that_has_not_begun_is_refused(world: World) -> None:
    job = run(world, {"day": "2999-01-01"})
    assert job["last_error"].startswith("Refused: day must lie between 2000-01-01 and today")


# Mail


def test_each_recipient_has_a_mail_of_their_own(make_world: Make, mail_server: MailServer, yesterday: str) -> None:
    world = make_world(SMTP_URL=mail_server.url, REPORT_RECIPIENTS=f"{ANN}, {BEN}, {ANN}")
    with_a_card_of_yesterday(world)
    mail_server.mails.clear()
    mail_server.recipients.clear()
    assert run(world)["status"] == "completed"
    assert mail_server.recipients == [[ANN], [BEN]]
    assert [mail["To"] for mail in mail_server.mails] == [ANN, BEN]
    for mail in mail_server.mails:
        text = mail.get_body(("plain",))
        assert text
        assert mail["Subject"] == f"Gift cards of default on {yesterday}"
        assert "USD: orders $25.00, payments $25.00, cards $25.00" in text.get_content()


def test_who_has_the_mail_gets_no_second_when_it_is_tried_again_for_another(
    make_world: Make, choosy: ChoosyServer
) -> None:
    choosy.says = {BEN: "450 try later"}
    world = make_world(SMTP_URL=choosy.url, REPORT_RECIPIENTS=f"{ANN},{BEN}")
    job = run(world)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    choosy.says = {}
    world.move(2)
    world.tick()
    assert world.job(job["id"])["status"] == "completed"
    assert choosy.recipients == [[ANN], [BEN]]


def test_an_address_that_is_refused_for_good_keeps_the_report_from_no_other(
    make_world: Make, choosy: ChoosyServer
) -> None:
    choosy.says = {ANN: "550 no such user"}
    job = run(make_world(SMTP_URL=choosy.url, REPORT_RECIPIENTS=f"{ANN},{BEN}"))
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert job["last_error"] == "PermanentError: 1 of 2 REPORT_RECIPIENTS are refused; the others have the report"
    assert choosy.recipients == [[BEN]]


def test_a_mail_that_is_sent_again_has_the_same_message_id(make_world: Make, mail_server: MailServer) -> None:
    world = make_world(SMTP_URL=mail_server.url, REPORT_RECIPIENTS=f"{ANN},{BEN}")
    job = run(world)
    # As if the function had been killed after the mail server took them.
    world.sql("update giftcard_effects set result = null, finished_at = null where name like 'mail:%%'")
    world.requeue(job["id"], force=True)
    world.tick()
    first, second = mail_server.mails[:2], mail_server.mails[2:]
    assert [mail["Message-ID"] for mail in first] == [mail["Message-ID"] for mail in second]
    assert len({mail["Message-ID"] for mail in first}) == 2


def test_a_mail_server_that_stays_down_is_tried_three_times_at_the_contracts_pace(
    make_world: Make, mail_server: MailServer
) -> None:
    mail_server.down()
    world = make_world(SMTP_URL=mail_server.url, REPORT_RECIPIENTS=ANN, GIFTCARD_CIRCUIT_THRESHOLD=0)
    job = run(world)
    delays = []
    while job["status"] == "queued":
        delays.append((job["scheduled_at"] - world.history(job["id"])[-1]["finished_at"]).total_seconds())
        world.move_to(job["scheduled_at"])
        world.tick()
        job = world.job(job["id"])
    assert (job["status"], job["attempts"], job["revive_at"] is not None) == ("error", 3, True)
    assert [round(delay / (1 << n), 6) for n, delay in enumerate(delays)] == pytest.approx([1.15, 1.15], abs=0.1501)


@pytest.mark.parametrize("environment", [{"GIFTCARD_ENV": "production"}, {"GIFTCARD_ENV": None}])
def test_production_with_recipients_and_no_mail_server_is_parked(make_world: Make, environment: dict[str, Any]) -> None:
    world = make_world(REPORT_RECIPIENTS=ANN, **environment)
    (job_id,) = world.enqueue("report")
    assert world.tick()["parked"]["report"] == "SMTP_URL"
    assert world.job(job_id)["status"] == "queued"


def test_production_without_recipients_needs_no_mail_server(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production")
    (job_id,) = world.enqueue("report")
    assert "report" not in world.tick()["parked"]
    assert (world.job(job_id)["status"], len(kept(world))) == ("completed", 1)


def test_development_writes_the_mails_as_files(make_world: Make, tmp_path: Path) -> None:
    world = make_world(REPORT_RECIPIENTS=f"{ANN},{BEN}", GIFTCARD_ENV="development")
    assert run(world)["status"] == "completed"
    assert len(list((tmp_path / "mails").glob("*.eml"))) == 2


def test_no_address_of_a_recipient_is_kept_or_logged(make_world: Make, choosy: ChoosyServer, log: Any) -> None:
    choosy.says = {ANN: f"550 {ANN} is unknown", BEN: f"450 {BEN} later"}
    world = make_world(SMTP_URL=choosy.url, REPORT_RECIPIENTS=f"{ANN},{BEN}")
    run(world)
    jobs = world.sql("select to_jsonb(j)::text as row from giftcard_jobs j")
    effects = world.sql("select to_jsonb(e)::text as row from giftcard_effects e")
    assert len(jobs + effects) >= 3
    assert "ops.example" not in f"{jobs}{effects}{log()}"
