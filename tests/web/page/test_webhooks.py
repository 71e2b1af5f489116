"""Webhook endpoints on the page: the list, one with its deliveries, and its secret, which is shown once."""

import re
from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer
from tests.web.page.conftest import Browser
from tests.web.page.html import Page


def create(world: World, **fields: Any) -> dict[str, Any]:
    body = {"url": "https://hooks.example.com/in", "events": ["giftcard.issued"]} | fields
    response = world.client.post("/api/v1/webhook-endpoints", json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json
    return made


def row(world: World) -> dict[str, Any]:
    return world.sql("select * from giftcard_webhook_endpoints")[0]


def test_the_list_has_states_with_the_reason(world: World, browser: Browser) -> None:
    create(world)
    create(world, url="https://crm.example.net/in", tenant_id="acme")
    world.sql("update giftcard_webhook_endpoints set enabled = false, disabled_reason = '410 Gone' where id = 2")
    text = Page(browser.get("/webhooks").text).text
    for word in ("https://hooks.example.com/in", "giftcard.issued", "active", "disabled", "410 Gone", "acme"):
        assert word in text, word
    assert "hooks.example.com" not in browser.get("/webhooks?tenant_id=acme").text


def test_a_test_is_sent_and_shows_as_a_delivery(world: World, browser: Browser) -> None:
    number = create(world)["id"]
    shown = Page(browser.follow(browser.post(f"/webhooks/{number}/test")).text)
    job = world.job(stage="webhook")["id"]
    assert f"Job {job} is queued" in shown.text
    assert f"/jobs/{job}" in shown.addresses
    assert f"/jobs?circuit=webhook%3A{number}" in shown.addresses


def test_only_its_own_deliveries_are_shown(world: World, browser: Browser) -> None:
    one, two = create(world)["id"], create(world, url="https://crm.example.net/in")["id"]
    browser.post(f"/webhooks/{one}/test")
    assert "Nothing was sent yet" in browser.get(f"/webhooks/{two}").text


def test_it_is_disabled_and_enabled(world: World, browser: Browser) -> None:
    number = create(world)["id"]
    assert "Disabled" in browser.follow(browser.post(f"/webhooks/{number}/disable")).text
    assert row(world)["enabled"] is False
    browser.post(f"/webhooks/{number}/enable")
    assert row(world)["enabled"] is True


def secret_of(html: str) -> str:
    found = re.search(r'<code class="secret"[^>]*>([^<]+)</code>', html)
    assert found, html
    return found[1]


def rotation(browser: Browser, number: int) -> dict[str, str]:
    found = re.search(r'name="key" value="([^"]+)"', browser.get(f"/webhooks/{number}").text)
    assert found
    return {"key": found[1], "former_hours": "24"}


def test_a_new_secret_is_on_its_answer_alone(world: World, browser: Browser) -> None:
    made = create(world)
    fields = rotation(browser, made["id"])
    response = browser.post(f"/webhooks/{made['id']}/rotate-secret", fields)
    secret = secret_of(response.text)
    assert response.status_code == 200
    assert secret != made["secret"]
    assert response.headers["Cache-Control"] == "no-store"
    assert "Location" not in response.headers
    assert secret not in str(browser.cookie())
    assert "Set-Cookie" not in response.headers
    for address in ("/webhooks", f"/webhooks/{made['id']}", "/audit"):
        assert secret not in browser.get(address).text
    assert "hx-get" not in response.text, "a poll would replace it"


def test_a_form_that_is_sent_twice_gives_the_same_secret(world: World, browser: Browser) -> None:
    number = create(world)["id"]
    fields = rotation(browser, number)
    path = f"/webhooks/{number}/rotate-secret"
    first, again = (secret_of(browser.post(path, fields).text) for _ in range(2))
    assert first == again
    assert secret_of(browser.post(path, rotation(browser, number)).text) != first


@pytest.mark.parametrize("hours", ["-1", "169", "x", "", "1e9", "NaN"])
def test_hours_that_no_secret_has_are_refused(world: World, browser: Browser, hours: str) -> None:
    number = create(world)["id"]
    response = browser.post(f"/webhooks/{number}/rotate-secret", {"former_hours": hours})
    assert "former_hours" in browser.follow(response).text
    assert row(world)["previous_secret_encrypted"] is None


def test_it_is_deleted(world: World, browser: Browser) -> None:
    number = create(world)["id"]
    assert "is deleted" in browser.follow(browser.post(f"/webhooks/{number}/delete")).text
    assert browser.get(f"/webhooks/{number}").status_code == 404


@pytest.mark.parametrize("verb", ["test", "enable", "disable", "rotate-secret", "delete"])
def test_of_one_that_is_not_there_it_leads_back(browser: Browser, verb: str) -> None:
    response = browser.post(f"/webhooks/7/{verb}", {"former_hours": "1"})
    assert response.status_code == 303
    assert "webhook endpoint 7 does not exist" in browser.get("/webhooks").text
