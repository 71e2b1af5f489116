"""Limits on the page: set with a reason, shown with what runs, removed."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.world import World
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token

LIMIT = {"kind": "stage", "name": "payment", "runs": "2", "per_second": "0.5", "burst": "5", "for_seconds": "3600"}
WHY = {"reason": "the vendor asked"}


def test_a_limit_is_set_shown_and_removed(world: World, browser: Browser) -> None:
    shown = Page(browser.follow(browser.post("/limits", LIMIT | WHY)).text)
    assert "The limit of stage payment is set" in shown.text
    for text in ("stage payment", "0 of 2", "0.5/s burst 5", "5 may start now", "the vendor asked"):
        assert text in shown.text, text
    (row,) = world.sql("select until, set_by from giftcard_limits")
    assert timedelta(minutes=50) < row["until"] - datetime.now(UTC) < timedelta(minutes=70)
    assert row["set_by"] == "admin token"
    gone = browser.post("/limits/remove", {"kind": "stage", "name": "payment", "tenant_id": ""} | WHY)
    assert "The limit of stage payment is removed" in Page(browser.follow(gone).text).text
    assert world.value("select count(*) from giftcard_limits") == 0


def test_a_limit_for_good_and_one_that_has_ended_are_told_apart(world: World, browser: Browser) -> None:
    browser.follow(browser.post("/limits", LIMIT | {"runs": "0", "for_seconds": ""} | WHY))
    world.sql("insert into giftcard_limits (kind, name, runs, until) values ('stage', 'email', 1, now())")
    text = Page(browser.get("/limits").text).text
    for part in ("none starts", "removed", "ended"):
        assert part in text, part


def test_the_settings_limits_are_shown_and_have_no_button(world: World, browser: Browser) -> None:
    world.tick()
    world.sql("update giftcard_ticks set limits = '{\"email\": 3}'")
    page = Page(browser.get("/limits").text)
    assert "0 of 3" in page.text
    assert "the settings" in page.text
    assert "/limits/remove" not in page.addresses


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "emial"}, "there is no stage emial"),
        ({"runs": "", "per_second": "", "burst": ""}, "a limit needs runs, per_second or both"),
        ({"per_second": "fast"}, "per_second"),
        ({"per_second": ".."}, "per_second"),
        ({"per_second": "."}, "per_second"),
        ({"runs": "many"}, "runs"),
        ({"tenant_id": "acme"}, "leave out tenant_id"),
    ],
)
def test_a_wrong_limit_leads_back_with_a_sentence(
    world: World, browser: Browser, change: dict[str, str], sentence: str
) -> None:
    assert sentence in Page(browser.follow(browser.post("/limits", LIMIT | WHY | change)).text).text
    assert world.value("select count(*) from giftcard_limits") == 0


def test_a_reader_sees_limits_without_forms(world: World, browser: Browser) -> None:
    browser.follow(browser.post("/limits", LIMIT | WHY))
    reader = Browser(world)
    reader.sign_in(create_token(world, name="reader", scopes=["jobs:read"]))
    page = Page(reader.get("/limits").text)
    assert "stage payment" in page.text
    assert {"/limits/remove"}.isdisjoint(page.addresses)


def test_the_stages_lead_to_the_limits(browser: Browser) -> None:
    assert "/limits" in Page(browser.get("/stages").text).addresses
