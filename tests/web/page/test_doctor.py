"""The doctor on the page: the worst first, each check with its fix; alerts; the mail server on request."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Unavailable
from tests.support.world import World
from tests.web.page.conftest import Browser
from tests.web.page.html import Page

Make = Callable[..., World]


def levels(page: Page) -> list[str]:
    return [text.rsplit(maxsplit=1)[-1] for text in page.texts["h3"] if text.endswith(("red", "yellow"))]


def test_checks_are_the_worst_first_with_their_fix(world: World, browser: Browser) -> None:
    html = browser.get("/doctor").text
    page = Page(html)
    found = levels(page)
    assert "red" in found, "no tick has run yet"
    assert found == sorted(found)
    assert page.title.startswith(f"{found.count('red')} red")
    assert html.count('class="fix"') == len(found)
    assert "hx-get" not in html, "each look costs many checks"


def test_alerts_that_hold_have_their_text(world: World, browser: Browser) -> None:
    world.sql(
        "insert into giftcard_alerts (condition, since, detail)"
        " values ('circuit:payment', now(), '{\"cause\": \"kate@example.com gets 503\"}')"
    )
    text = Page(browser.get("/doctor").text).text
    assert "circuit payment is open: " in text
    assert "no channel has been notified" in text
    assert "kate@example.com" not in text


def test_the_mail_server_is_tried_by_the_button_alone(make_world: Make) -> None:
    world = make_world(SMTP_URL="smtp://127.0.0.1:1", MAIL_FROM="Shop <cards@example.com>")
    browser = Browser(world)
    browser.sign_in()
    assert "SMTP_URL: " not in browser.get("/doctor").text
    response = browser.post("/doctor")
    assert response.status_code == 200
    assert "The mail server was tried just now" in response.text
    assert "SMTP_URL: " in response.text


def test_without_a_database_it_shows_that_check(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("the database is away")

    monkeypatch.setattr(type(world.store._wire), "call", away)
    response = browser.get("/doctor")
    assert response.status_code == 200
    page = Page(response.text)
    assert "the alerts that hold are not known" in page.text
    assert any(text.startswith("database") for text in page.texts["h3"])
