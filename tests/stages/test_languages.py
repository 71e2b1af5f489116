"""An order of each intake gets its mail in its own language, through a real mail server."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.errors import SettingsError
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.order_files import import_lines
from tests.support.world import World, an_order, settings_of

Make = Callable[..., World]
Intake = Callable[[World, str | None, str], None]

COLUMNS = "correlation_id,external_id,given_name,email,amount,currency,locale"
SUBJECTS = {
    "de-at": "Ihre Geschenkkarte über $ 25,00",
    "EN-gb": "Your US$25.00 gift card",
    "fr": "Ihre Geschenkkarte über 25,00 $US",
    None: "Ihre Geschenkkarte über 25,00 $",
}
TAGS = {"de-at": "de-AT", "EN-gb": "en-GB", "fr": "fr", None: None}


@pytest.fixture
def server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


def order(locale: str | None) -> dict[str, Any]:
    made = an_order(customer={"external_id": uuid.uuid4().hex})
    return made | {"locale": locale} if locale else made


def by_api(world: World, locale: str | None, flow: str) -> None:
    assert world.submit(order(locale) | {"correlation_id": flow}).status_code == 202


def by_csv(world: World, locale: str | None, flow: str) -> None:
    lines = [COLUMNS, f"{flow},{flow},Kate,kate@example.com,25.00,USD,{locale or ''}"]
    assert import_lines(world, lines).created == 1


def by_plain_sql(world: World, locale: str | None, flow: str) -> None:
    world.add("customer_ingest", order(locale), correlation_id=flow)


def by_job(world: World, locale: str | None, flow: str) -> None:
    world.add("payment", order(locale), correlation_id=flow)


@pytest.mark.parametrize("intake", [by_api, by_csv, by_plain_sql, by_job])
def test_each_intake_takes_the_language_of_the_order(make_world: Make, server: MailServer, intake: Intake) -> None:
    world = make_world(SMTP_URL=server.url, GIFTCARD_LOCALE="de", GIFTCARD_JOBS_PER_CRON_RUN=100)
    for locale in SUBJECTS:
        intake(world, locale, f"order-{locale}")
    for _ in range(6):
        world.tick()
    assert sorted(mail["Subject"] for mail in server.mails) == sorted(SUBJECTS.values())
    assert {locale: world.flow(f"order-{locale}")["order"]["locale"] for locale in TAGS} == TAGS


def test_tag_that_is_none_is_refused_at_each_door(make_world: Make) -> None:
    world = make_world()
    refused = world.submit(order("German"))
    assert refused.json
    assert (refused.status_code, refused.json["field"]) == (422, "locale")
    assert refused.json["detail"] == "locale is not a language tag of BCP 47, like de or en-GB"
    wrong = import_lines(world, [COLUMNS, "f,,Kate,kate@example.com,25.00,USD,de_AT"]).wrong
    assert wrong == [{"line": 2, "problem": "locale is not a language tag of BCP 47, like de or en-GB"}]


@pytest.mark.parametrize("value", ["german", "de_AT", "de-", "../de"])
def test_default_that_is_no_tag_is_named_and_not_repeated(value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings_of(GIFTCARD_LOCALE=value)
    assert str(raised.value).endswith("GIFTCARD_LOCALE: must be a language tag like de or en-GB")


def test_same_order_in_another_spelling_of_its_language_is_the_same(world: World) -> None:
    body = order("de-AT") | {"correlation_id": "order-1"}
    assert [world.submit(body | {"locale": tag}).status_code for tag in ("de-AT", "DE-at", "de")] == [202, 202, 409]


def test_erasing_a_customer_erases_the_language(world: World) -> None:
    by_api(world, "de", "order-1")
    world.sql("update giftcard_orders set details = '{}'")
    assert world.sql("select locale from giftcard_orders") == [{"locale": None}]
