"""Tokens on the page: created, shown once, revoked."""

import re

import pytest

from tests.support.world import World
from tests.web.page.conftest import Browser
from tests.web.page.html import Page

READER = {"name": "night-shift", "scopes": ["jobs:read", "orders:read"]}


def token_of(html: str) -> str:
    found = re.search(r"gct_[\w-]{20,}", html)
    assert found, html
    return found[0]


def test_a_token_is_on_its_answer_alone_and_works(world: World, browser: Browser) -> None:
    response = browser.post("/tokens", READER | {"tenant_id": "", "expires_seconds": "86400"})
    token = token_of(response.text)
    assert response.status_code == 200
    assert {"Location", "Set-Cookie"}.isdisjoint(response.headers.keys())
    assert token not in browser.get("/tokens").text
    assert token not in browser.get("/audit").text
    other = Browser(world)
    assert other.sign_in(token).status_code == 303
    assert other.get("/schedules").status_code == 200
    row = world.sql("select *, extract(epoch from expires_at - created_at)::int as life from giftcard_tokens")[0]
    assert (row["scopes"], row["tenant_id"], row["life"]) == (["jobs:read", "orders:read"], None, 86_400)


def test_the_list_has_states_and_last_uses(world: World, browser: Browser) -> None:
    token = token_of(browser.post("/tokens", READER | {"tenant_id": "acme"}).text)
    assert "never" in Page(browser.get("/tokens").text).text
    Browser(world).sign_in(token)
    browser.post("/tokens", READER | {"name": "old", "expires_seconds": "86400"})
    world.sql("update giftcard_tokens set expires_at = created_at where name = 'old'")
    text = Page(browser.get("/tokens").text).text
    assert "never" in text
    for word in ("night-shift", "acme", "active", "expired", "by admin token", "jobs:read", token[:8]):
        assert word in text, word


def test_a_revoked_one_ends_its_sessions(world: World, browser: Browser) -> None:
    other = Browser(world)
    other.sign_in(token_of(browser.post("/tokens", READER).text))
    shown = Page(browser.follow(browser.post("/tokens/revoke", {"name": "night-shift"})).text)
    assert "Revoked" in shown.text
    assert "revoked" in shown.texts["td"][3]
    assert "/tokens/revoke" not in shown.addresses
    assert other.get("/schedules").status_code == 303


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Night Shift"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"expires_seconds": "1"}, "expires_seconds"),
        ({"expires_seconds": "soon"}, "expires_seconds"),
        ({"expires_seconds": "9" * 5000}, "expires_seconds"),
        ({"tenant_id": "a\x00b"}, "tenant_id"),
    ],
)
def test_what_no_token_has_is_refused(world: World, browser: Browser, changes: dict[str, object], field: str) -> None:
    response = browser.post("/tokens", READER | changes)
    assert response.headers["Location"] == "/tokens"
    assert field in browser.follow(response).text
    assert world.value("select count(*) from giftcard_tokens") == 0


def test_a_name_is_given_once(world: World, browser: Browser) -> None:
    browser.post("/tokens", READER)
    assert "night-shift" in browser.follow(browser.post("/tokens", READER)).text
    assert world.value("select count(*) from giftcard_tokens") == 1


@pytest.mark.parametrize("name", ["", "nobody", "a\x00b", "\N{PILE OF POO}" * 5000])
def test_of_one_that_is_not_there_it_leads_back(browser: Browser, name: str) -> None:
    shown = browser.follow(browser.post("/tokens/revoke", {"name": name}))
    assert 'class="notice error"' in shown.text
