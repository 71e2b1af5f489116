"""Hostile text in every column that the pages show is text: no markup, no script, no template."""

import json
from collections.abc import Iterator

import pytest

from dev.postgres import Embedded
from tests.support.hostile_rows import stock, without_triggers
from tests.support.world import World, a_world
from tests.web.page.conftest import Browser
from tests.web.page.html import Page

# Closes what it may be within, begins elements, turns the direction of text around, and has no place to break.
HOSTILE = "<script>alert('{}')</script>\"'><img src=x onerror=y>{{{{7*7}}}}\N{RIGHT-TO-LEFT OVERRIDE}" + "W" * 20
# By view: table and columns that it shows.
SHOWN = {
    "/schedules": {"schedules": "name tenant_id schedule timezone pause_reason"},
    "/schedules/1": {"schedules": "name schedule timezone pause_reason paused_by", "jobs": "last_error tenant_id"},
    "/webhooks": {"webhook_endpoints": "url tenant_id disabled_reason"},
    "/webhooks/1": {"webhook_endpoints": "disabled_reason", "jobs": "last_error"},
    "/tokens": {"tokens": "name tenant_id created_by"},
    "/audit": {"audit": "by subject tenant_id"},
    "/reconciliation": {"payments": "provider_ref", "audit": "by subject tenant_id"},
}
JSON = {
    "/schedules/1": ("schedules", "payload", "{}"),
    "/audit": ("audit", "details", "{}"),
    "/reports/default/2026-01-01": (
        "reports",
        "report",
        '{{"complete": true, "currencies": [{{"currency": {0}, "orders": 1, "orders_amount": 1, "payments": 1,'
        ' "payments_amount": 1, "cards": 1, "cards_amount": 1}}], "differences": [{{"kind": {0}, "currency": {0},'
        ' "items": 1, "amount": 1}}], "failures": [{{"stage": {0}, "reason": {0}, "failures": 1, "retries": 1,'
        ' "dead_letters": 1}}], "last_days": [{{"day": {0}, "cards": 3}}]}}',
    ),
    "/doctor": ("alerts", "detail", '{{"cause": {0}, "error": {0}}}'),
}


def text_of(name: str) -> str:
    return HOSTILE.format(name)


def readable(name: str) -> str:
    """The text as pages show it: the control of its direction is visible."""
    if name == "payload":
        return json.dumps(text_of(name), ensure_ascii=False).replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\\u202e")
    return text_of(name).replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\N{REPLACEMENT CHARACTER}")


@pytest.fixture(scope="module")
def browser(postgres: Embedded, template: str) -> Iterator[Browser]:
    postgres.start()
    with a_world(postgres.create_database("hostile_columns", template=template)) as world:
        stock(world)
        plant(world)
        own = Browser(world)
        assert own.sign_in().status_code == 303
        yield own
    postgres.drop_database("hostile_columns")


def plant(world: World) -> None:
    with without_triggers(world):
        for statement in (
            "update giftcard_webhook_endpoints set enabled = false, disabled_reason = 'gone'",
            "update giftcard_schedules set paused_at = now(), paused_by = 'me', next_at = null",
            "update giftcard_jobs set stage = 'webhook', circuit = 'webhook:1' where id = 1",
            "insert into giftcard_audit (at, by, action, subject) values (now(), 'kim', 'accept_difference', 'x')",
            # Money that names no order: a line of the reconciliation.
            "delete from giftcard_cards",
            "update giftcard_payments set correlation_id = null",
            "insert into giftcard_alerts (condition, since) values ('check_failed:x', now())",
        ):
            world.sql(statement)
        for tables in SHOWN.values():
            for table, columns in tables.items():
                for column in columns.split():
                    world.sql(f"update giftcard_{table} set {column} = %s", text_of(column))
        for table, column, form in JSON.values():
            quoted = world.value("select to_json(%s::text)::text", text_of(column))
            value = f"{{{quoted}: {quoted}}}" if form == "{}" else form.format(quoted)
            world.sql(f"update giftcard_{table} set {column} = %s::jsonb", value)


@pytest.mark.parametrize("address", sorted(SHOWN | JSON))
def test_it_shows_as_text(browser: Browser, address: str) -> None:
    response = browser.get(address)
    assert response.status_code == 200, response.text
    page = Page(response.text)
    assert page.foreign == []
    names = " ".join(SHOWN.get(address, {}).values()).split()
    names += [JSON[address][1]] if address in JSON else []
    for name in names:
        assert readable(name) in page.text, (name, page.text)


def test_a_filter_shows_what_was_asked_for_as_text(browser: Browser) -> None:
    for address in ("/schedules?name={}", "/audit?by={}", "/audit?tenant_id={}", "/reports?tenant_id={}"):
        page = Page(browser.get(address.format("%22><script>alert(1)</script>")).text)
        assert page.foreign == []
        assert '"><script>alert(1)</script>' in page.text
