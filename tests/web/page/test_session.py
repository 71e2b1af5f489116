"""Sign-in: who gets in, until when, and what a form of another site can do."""

from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import Client

from lib.web.page import session
from tests.support.world import ADMIN, API, CRON, World, bearer
from tests.web.page.conftest import Browser

Make = Callable[..., World]


def create_token(world: World, **wanted: Any) -> str:
    body = {"name": "night", "scopes": ["jobs:read"]} | wanted
    response = world.client.post("/api/v1/tokens", json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    token: str = response.json["token"]
    return token


def test_without_a_session_each_page_leads_to_the_sign_in(world: World) -> None:
    response = Browser(world).get("/?x=1")
    assert (response.status_code, response.headers["Location"]) == (303, "/sign-in?next=/?x%3D1")


def test_a_poll_without_a_session_makes_the_browser_leave(world: World) -> None:
    response = Browser(world).get("/", HX_Request="true")
    assert response.headers["HX-Redirect"] == "/sign-in"


def test_the_admin_token_signs_in(browser: Browser) -> None:
    assert browser.get("/").status_code == 200
    cookie = browser.cookie()
    assert (cookie.http_only, cookie.same_site, cookie.path, cookie.secure) == (True, "Strict", "/", False)


def test_in_production_the_cookie_belongs_to_this_host_alone(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production", GIFTCARD_LEDGER_IS_MEANT="1", SMTP_URL="smtps://mail.example.com")
    browser = Browser(world)
    assert browser.sign_in().status_code == 303
    cookie = browser.cookie()
    assert (cookie.key, cookie.secure) == ("__Host-giftcards", True)
    header = Client(world.app).post("/sign-in", data={"token": ADMIN}).headers["Set-Cookie"]
    assert "Domain" not in header
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"} < set(header.split("; "))


@pytest.mark.parametrize("token", ["", "nope", "gct_nope", "ü", f"{ADMIN}x"])
def test_a_wrong_token_does_not(world: World, token: str) -> None:
    browser = Browser(world)
    response = browser.sign_in(token)
    assert response.status_code == 401
    assert "this token is not known here" in response.text
    assert browser.get("/").status_code == 303


def test_wrong_tries_slow_down_and_the_right_token_gets_in(world: World) -> None:
    browser = Browser(world)
    statuses = [browser.sign_in(f"wrong-{number}").status_code for number in range(25)]
    assert statuses[:20] == [401] * 20
    assert statuses[20:] == [429] * 5
    assert browser.sign_in().status_code == 303


@pytest.mark.parametrize("token", [API, CRON])
def test_tokens_for_other_things_see_no_page(world: World, token: str) -> None:
    browser = Browser(world)
    browser.sign_in(token)
    response = browser.get("/")
    assert response.status_code == 403
    assert "the scope jobs:read" in response.text


def test_a_token_that_reads_signs_in_until_it_is_revoked(world: World) -> None:
    browser = Browser(world)
    assert browser.sign_in(create_token(world)).status_code == 303
    assert browser.get("/").status_code == 200
    assert world.client.delete("/api/v1/tokens/night", headers=bearer(ADMIN)).status_code == 200
    assert browser.get("/").status_code == 303


def test_a_token_of_one_tenant_sees_no_page_about_all(world: World) -> None:
    browser = Browser(world)
    browser.sign_in(create_token(world, tenant_id="acme"))
    assert browser.get("/").status_code == 403


def test_a_token_of_one_tenant_begins_at_a_page_that_it_may_see(world: World) -> None:
    browser = Browser(world)
    led_to = browser.sign_in(create_token(world, tenant_id="acme")).headers["Location"]
    assert led_to == browser.get("/sign-in").headers["Location"] == "/orders"
    assert browser.get(led_to).status_code == 200
    refused = browser.get("/")
    assert (refused.status_code, '<a href="/orders">Go to Orders</a>' in refused.text) == (403, True)


def test_a_changed_secret_ends_the_sessions(make_world: Make, world: World, browser: Browser) -> None:
    cookie = browser.cookie().value
    others = {"GIFTCARD_ADMIN_TOKEN": "admin-another-4mQp1zXc8Vb2Ns7Rg4", "CRON_SECRET": "clock-another-8kq2Zr7wLx4V"}
    for name, value in others.items():
        client = Client(make_world(**{name: value}).app)
        client.set_cookie("giftcards", cookie)
        assert client.get("/").status_code == 303
    client = Client(make_world().app)
    client.set_cookie("giftcards", cookie)
    assert client.get("/").status_code == 200


def test_a_session_ends_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(world)
    monkeypatch.setattr(session, "LIFETIME", -1)
    browser.sign_in()
    assert browser.get("/").status_code == 303


def test_a_forged_cookie_is_none(world: World, browser: Browser) -> None:
    client = Client(world.app)
    client.set_cookie("giftcards", browser.cookie().value[:-3] + "abc")
    assert client.get("/").status_code == 303


def test_sign_out_ends_it(browser: Browser) -> None:
    assert browser.post("/sign-out").status_code == 303
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize("csrf", ["", "wrong", "ü"])
def test_a_form_without_the_token_of_the_session_changes_nothing(browser: Browser, csrf: str) -> None:
    assert browser.post("/sign-out", csrf=csrf).status_code == 403
    assert browser.get("/").status_code == 200


def test_a_form_of_another_site_is_refused(browser: Browser) -> None:
    sent = browser._client.post("/sign-out", data={"csrf": browser.csrf()}, headers={"Sec-Fetch-Site": "cross-site"})
    assert sent.status_code == 403


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "/\n/x"]
)
def test_the_sign_in_leads_to_pages_of_this_site_alone(world: World, address: str) -> None:
    response = Client(world.app).post("/sign-in", data={"token": ADMIN, "next": address})
    assert response.headers["Location"] == "/"


def test_a_long_notice_leaves_the_cookie_small(browser: Browser) -> None:
    circuit = "".join(map(chr, range(0x4E00, 0x4E00 + 2900)))
    response = browser.post("/circuits/reset", {"circuit": circuit, "reason": "x"})
    assert len(response.headers["Set-Cookie"]) < 4096
    assert f"circuit {circuit[:100]}" in browser.follow(response).text


@pytest.mark.parametrize(
    ("headers", "peer", "status"),
    [
        ({"Host": "127.0.0.1:8000"}, "127.0.0.1", 200),
        ({"Host": "localhost:8000"}, "127.0.0.1", 200),
        ({"Host": "[::1]:8000"}, "::1", 200),
        ({"Host": "evil.example"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1.evil.example:8000"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000"}, "192.0.2.7", 303),
        ({"Host": "127.0.0.1:8000", "X-Forwarded-For": "192.0.2.7"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000", "x-forwarded-host": "giftcards.example"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000", "X-Real-IP": "192.0.2.7"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000", "Forwarded": "for=192.0.2.7"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000", "Via": "1.1 proxy"}, "127.0.0.1", 303),
        ({"Host": "127.0.0.1:8000", "CF-Connecting-IP": "192.0.2.7"}, "127.0.0.1", 303),
    ],
)
def test_make_dev_lets_this_machine_in(make_world: Make, headers: dict[str, str], peer: str, status: int) -> None:
    client = Client(make_world(GIFTCARD_ENV="development", GIFTCARD_PAGE_OPEN="1").app)
    response = client.get("/", headers=headers, environ_overrides={"REMOTE_ADDR": peer})
    assert response.status_code == status
