"""Daily reports on the page: the list, one with its sums, CSV, and a new one."""

import pytest

from tests.support.world import World, an_order
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token


@pytest.fixture
def today(world: World) -> str:
    """Today, with an order of 25 dollars that has its card."""
    assert world.submit(an_order()).status_code == 202
    world.drain()
    day: str = world.value("select (now() at time zone 'UTC')::date::text")
    return day


def test_a_report_is_made_and_shown_with_its_sums(world: World, browser: Browser, today: str) -> None:
    assert "No report was made yet" in browser.get("/reports").text
    response = browser.post("/reports", {"day": today, "tenant_id": ""})
    assert response.headers["Location"] == f"/reports/default/{today}"
    page = Page(browser.follow(response).text)
    assert "The report is made" in page.text
    assert "The day was not over" in page.text
    assert [" ".join(text.split()) for text in page.texts["td"][:4]] == [
        "USD", "$25.00 1 order", "$25.00 1 payment", "$25.00 1 card"
    ]  # fmt: skip
    assert len(page.texts["rect"]) == 14
    assert f"/reports/default/{today}.csv" in page.addresses
    assert f"/reports/default/{today}" in Page(browser.get("/reports").text).addresses


def test_it_can_be_downloaded(browser: Browser, today: str) -> None:
    browser.post("/reports", {"day": today})
    response = browser.get(f"/reports/default/{today}.csv")
    assert response.mimetype == "text/csv"
    assert response.headers["Content-Disposition"] == f'attachment; filename="giftcards-default-{today}.csv"'
    assert f"default,{today},cards,USD,,,1,25.00,2500" in response.text


def test_without_a_day_it_is_of_yesterday(world: World, browser: Browser) -> None:
    response = browser.post("/reports")
    yesterday = world.value("select ((now() at time zone 'UTC')::date - 1)::text")
    assert response.headers["Location"] == f"/reports/default/{yesterday}"


@pytest.mark.parametrize("day", ["1999-12-31", "2999-01-01", "x", "2026-02-30", "infinity"])
def test_a_day_that_no_report_has_is_refused(world: World, browser: Browser, day: str) -> None:
    response = browser.post("/reports", {"day": day})
    assert response.headers["Location"] == "/reports"
    assert "day" in Page(browser.follow(response).text).texts["p"][0]
    assert browser.get(f"/reports/default/{day}").status_code == 404
    assert browser.get(f"/reports/default/{day}.csv").status_code == 404


@pytest.mark.parametrize("tenant", ["a/b", "a//b", "a?b#c", "\N{SNOWMAN} \"'<", "."])
def test_a_tenant_of_any_name_has_its_page(browser: Browser, tenant: str) -> None:
    response = browser.post("/reports", {"day": "2026-01-31", "tenant_id": tenant})
    page = Page(browser.follow(response).text)
    assert tenant in page.texts["h1"][0]
    link = next(each for each in Page(browser.get("/reports").text).addresses if each.endswith("2026-01-31"))
    assert browser.get(link).status_code == 200


def test_a_token_of_one_tenant_sees_its_own(world: World) -> None:
    browser = Browser(world)
    browser.sign_in(create_token(world, name="acme", scopes=["jobs:read", "jobs:write"], tenant_id="acme"))
    assert browser.post("/reports", {"day": "2026-01-31"}).headers["Location"] == "/reports/acme/2026-01-31"
    assert "for the tenant acme only" in browser.follow(browser.post("/reports", {"tenant_id": "other"})).text
    assert [row["tenant_id"] for row in world.sql("select tenant_id from giftcard_reports")] == ["acme"]
    assert browser.get("/reports/default/2026-01-31").status_code == 403
