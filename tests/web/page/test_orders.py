"""An order on the page: found by what is known of it, its story and its mail, and the mail sent again."""

import re
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote

import pytest

from lib.store.wire import Wire
from tests.support.tenants import create_token
from tests.support.world import World, an_order
from tests.web.page.conftest import Browser

FLOW = "order/7 ü&?#"
ADDRESS = f"/orders/default/{quote(FLOW, safe='/&')}"
HREF = f'href="{escape(ADDRESS)}"'
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def issued(world: World) -> World:
    world.add("customer_ingest", an_order(message="Liebe Grüße"), correlation_id=FLOW)
    world.drain()
    assert world.value("select count(*) from giftcard_cards") == 1
    return world


@pytest.fixture
def admin(issued: World, browser: Browser) -> Browser:
    browser.sign_in()
    return browser


def acts(world: World) -> list[str]:
    return [row["action"] for row in world.sql("select action from giftcard_audit order by id")]


def frames(html: str) -> list[str]:
    found = re.findall(r'<iframe class="mail" sandbox loading="lazy" src="([^"]+)"', html)
    return [address.replace("&amp;", "&") for address in found]


def test_an_order_is_found_by_a_form_and_nothing_of_it_is_in_an_address(admin: Browser, issued: World) -> None:
    assert "Find" in admin.get("/orders").text
    for text in (FLOW, "order/", "KATE@example.com", issued.value("select last4 from giftcard_cards")):
        page = admin.post("/orders", {"text": text})
        assert (page.status_code, HREF in page.text) == (200, True), text
        assert "kate@example.com" not in page.text.replace('value="KATE@example.com"', "")
        assert "K… R… [email]" in page.text
    assert acts(issued) == ["reveal"], "by the address"
    assert "kate@example.com" in admin.post("/orders", {"text": FLOW, "reveal": "true"}).text
    assert acts(issued) == ["reveal", "reveal"]
    assert "No order matches." in admin.post("/orders", {"text": "none"}).text
    assert admin.post("/orders", {"text": ""}).status_code == 422


def test_a_story_is_masked_until_it_is_asked_for(admin: Browser, issued: World) -> None:
    page = admin.get(ADDRESS)
    assert page.status_code == 200
    for text in ("K… R…", "[email]", "email: the mail server has accepted the mail", "$25.00"):
        assert text in page.text
    for text in ("Kate", "Rodgers", "kate@example.com"):
        assert text not in page.text
    assert acts(issued) == []
    shown = admin.post(ADDRESS)
    assert "Kate Rodgers" in shown.text
    assert "kate@example.com" in shown.text
    assert acts(issued) == ["reveal"]
    assert admin.get("/orders/default/none").status_code == 404
    assert admin.get("/orders/default/a%00b").status_code == 400


def test_a_story_that_is_the_same_is_not_sent_again(admin: Browser) -> None:
    tag = admin.get(ADDRESS).headers["HX-PTag"]
    assert admin.get(ADDRESS, HX_PTag=tag).status_code == 304


def test_each_page_needs_two_calls_of_the_database_at_most(
    admin: Browser, monkeypatch: pytest.MonkeyPatch, issued: World
) -> None:
    calls: list[str] = []
    wire: Any = issued.store._wire
    real: Callable[..., Any] = type(wire).call

    def counted(self: Wire, function: str, **arguments: Any) -> Any:
        calls.append(function)
        return real(self, function, **arguments)

    monkeypatch.setattr(type(wire), "call", counted)
    (html, text) = frames(admin.get(ADDRESS).text)
    assert calls == ["giftcard_order_story"]
    csrf = admin.csrf()
    visits: tuple[Callable[[], Any], ...] = (
        lambda: admin.get("/orders"),
        lambda: admin.post("/orders", {"text": "order", "reveal": "true"}, csrf=csrf),
        lambda: admin.post(ADDRESS, csrf=csrf),
        lambda: admin.get(html),
        lambda: admin.get(f"{text}&reveal=true"),
    )
    for visit in visits:
        calls.clear()
        assert visit().status_code == 200
        assert len(calls) <= 2, calls


def test_the_mail_is_shown_in_a_frame_that_can_do_nothing(admin: Browser, issued: World) -> None:
    html, text = frames(admin.get(ADDRESS).text)
    last4 = issued.value("select last4 from giftcard_cards")
    page = admin.get(html)
    policy = page.headers["Content-Security-Policy"]
    assert {"sandbox", "default-src 'none'", "form-action 'none'", "frame-ancestors 'self'"} <= set(policy.split("; "))
    assert "script-src" not in policy
    assert f"•••• •••• •••• {last4}" in page.text
    assert "Liebe Grüße" in page.text
    plain = admin.get(text)
    assert plain.content_type == "text/plain; charset=utf-8"
    assert plain.text.startswith("Subject: Your $25.00 gift card\nTo: [email]\n\nHello K,")
    assert acts(issued) == []
    html, text = frames(admin.post(ADDRESS).text)
    assert "9900 " in admin.get(html).text
    assert "To: kate@example.com\n" in admin.get(text).text
    assert acts(issued) == ["reveal"] * 3
    issued.sql("update giftcard_orders set details = '{}'")
    assert admin.get(html).text == "the mail cannot be shown: the customer of this order was erased\n"


def test_a_mail_is_sent_again_with_a_reason_to_a_corrected_address(admin: Browser, issued: World) -> None:
    form = {"tenant_id": "default", "correlation_id": FLOW, "back": ADDRESS}
    answer = admin.post("/resend", form | {"reason": "typing error", "email": "anna@example.com"})
    assert answer.headers["Location"] == ADDRESS
    notice = admin.follow(answer).text
    assert "sends the mail again with the next tick. The order has the new address." in notice
    assert acts(issued) == ["correct_recipient", "resend"]
    page = admin.follow(admin.post("/resend", form | {"reason": "again"})).text
    assert "waits or runs to send the mail already: nothing was added." in page
    for wrong in ({}, {"reason": "x", "email": "anna"}, {"reason": "x", "correlation_id": "none"}):
        refused = admin.follow(admin.post("/resend", form | wrong))
        assert 'class="notice error"' in refused.text
    issued.drain()
    assert issued.value("select count(*) from giftcard_jobs where stage = 'email'") == 2


def test_a_reader_sees_the_story_and_changes_nothing(issued: World, browser: Browser) -> None:
    browser.sign_in(create_token(issued, "reader", "jobs:read"))
    page = browser.get(ADDRESS)
    assert page.status_code == 200
    for text in ("Send the mail again", "Show names"):
        assert text not in page.text
    form = {"tenant_id": "default", "correlation_id": FLOW, "reason": "x"}
    for answer in (
        browser.post("/resend", form),
        browser.post(ADDRESS),
        browser.post("/orders", {"text": FLOW, "reveal": "true"}),
        browser.get(f"/mails/default/{quote(FLOW)}?reveal=true"),
    ):
        assert answer.status_code == 403
    assert acts(issued) == ["create_token"]


def test_a_token_of_one_tenant_sees_its_own_orders_only(issued: World, browser: Browser) -> None:
    issued.add("customer_ingest", an_order(), correlation_id=FLOW, tenant_id="shop")
    issued.drain()
    browser.sign_in(create_token(issued, "shop", "admin", tenant="shop"))
    page = browser.post("/orders", {"text": "order"}).text
    assert (page.count("/orders/shop/"), page.count("/orders/default/")) == (1, 0)
    for address in (ADDRESS, f"/mails/default/{quote(FLOW)}"):
        assert "K… R…" not in browser.get(address).text
    assert browser.get(ADDRESS).status_code == 403
    assert browser.get(ADDRESS.replace("default", "shop")).status_code == 200


def test_hostile_text_in_every_field_shows_as_text(admin: Browser, issued: World) -> None:
    issued.sql(
        "update giftcard_orders set details = jsonb_build_object('message', %s::text, 'customer', jsonb_build_object("
        "'email', %s::text, 'given_name', %s::text, 'family_name', %s::text), 'deliver_at', %s::text, 'locale', 'en')",
        *[HOSTILE] * 5,
    )
    for statement in (
        "update giftcard_jobs set last_error = %s, trigger_type = %s, dedup_key = %s where stage = 'email'",
        "update giftcard_job_history set error = %s, lock_owner = %s, stage = left(%s, 90)",
        "update giftcard_payments set provider = %s, provider_ref = %s || %s",
        "update giftcard_cards set provider = %s, provider_ref = %s || %s",
        "update giftcard_effects set name = %s, dedup_key = %s, result = jsonb_build_object('message_id', %s::text)",
        "insert into giftcard_audit (at, by, tenant_id, action, subject, details)"
        " select now(), left(%s, 90), 'default', 'cancel', 'order ' || correlation_id,"
        " jsonb_build_object('reason', %s::text || %s) from giftcard_orders",
        "insert into giftcard_stages (stage, paused_at, paused_by, reason) values ('*', now(), %s, %s || %s)",
        "update giftcard_payments set worth = 7000, correlation_id = correlation_id where %s || %s || %s <> ''",
    ):
        issued.sql(statement, *[HOSTILE] * 3)
    issued.add("email", an_order(), correlation_id=FLOW, dedup_key=f"{HOSTILE}2")
    pages = [admin.get(ADDRESS), admin.post(ADDRESS), admin.post("/orders", {"text": FLOW, "reveal": "true"}),
             admin.post("/orders", {"text": HOSTILE}), admin.post("/search", {"q": HOSTILE + "@"})]  # fmt: skip
    for page in pages:
        assert page.status_code == 200, page.text
        assert "&lt;script&gt;" in page.text
        for part in ("<script>alert", "<img src=x"):
            assert part not in page.text
    mail = admin.get(f"/mails/default/{quote(FLOW)}")
    assert "<script>" not in mail.text


def test_jobs_of_no_order_have_a_story_and_no_mail_to_send(browser: Browser, world: World) -> None:
    world.add("http_call", correlation_id="schedule:1", scheduled_at="2035-01-01T00:00:00Z")
    html = browser.get("/orders/default/schedule%3A1").text
    assert "Flow <bdi>schedule:1</bdi>" in html
    assert "These jobs belong to no order." in html
    assert 'action="/resend"' not in html


def test_times_within_sentences_are_shown_like_all_times(browser: Browser, world: World) -> None:
    world.add("email", correlation_id="late", scheduled_at="2035-01-01T00:00:00Z")
    for address in ("/jobs", "/orders/default/late"):
        html = browser.get(address).text
        assert 'due at <time datetime="2035-01-01T00:00:00Z">' in html, address
        assert not re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", html), address
