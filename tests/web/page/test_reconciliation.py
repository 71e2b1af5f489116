"""Where money and cards do not match, on the page: lines by kind, and their acceptance."""

from typing import Any

import pytest

from tests.support.world import World, an_order
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token


def stray(world: World, reference: str, *, tenant: str = "default", order: str | None = None) -> dict[str, str]:
    """Money that came for no order, or a second time for one; the fields of its line."""
    world.value(
        "select giftcard_record_payment_event(p_tenant_id => %s, p_provider => 'http', p_event_id => %s,"
        " p_kind => 'captured', p_amount => 2500, p_currency => 'USD', p_provider_ref => %s, p_named_order => %s)",
        *(tenant, f"event {reference}", reference, order),
    )
    kind = "paid_twice" if order else "money_without_order"
    return {"kind": kind, "reference": reference, "tenant_id": tenant}


def accepted(world: World) -> list[dict[str, Any]]:
    return world.sql("select item, by, reason from giftcard_accepted_differences")


def test_when_all_matches_it_is_green(browser: Browser) -> None:
    page = Page(browser.get("/reconciliation").text)
    assert page.texts["h1"] == ["Money and cards match"]
    assert "every sum and link was checked" in browser.get("/reconciliation?verify=true").text


def test_lines_are_by_kind_with_their_order_and_what_to_do(world: World, browser: Browser) -> None:
    response = world.submit(an_order(correlation_id="order-7"))
    assert response.status_code == 202, response.text
    world.drain()
    stray(world, "pi_1")
    stray(world, "pi_2", order="order-7")
    stray(world, "pi_3")
    page = Page(browser.get("/reconciliation").text)
    assert page.texts["h1"] == ["Money and cards do not match in 3 places"]
    assert page.title.startswith("3 differences")
    assert [text.partition(" ·")[0] for text in page.texts["h2"]] == ["Money without order", "Paid twice", "Accepted"]
    assert "/orders/default/order-7" in page.addresses
    assert "Refund this payment." in page.text
    assert page.text.count("$25.00") == 3


def test_a_line_is_accepted_with_a_reason(world: World, browser: Browser) -> None:
    fields = stray(world, "pi_1")
    page = browser.get("/reconciliation").text
    assert 'name="reference" value="pi_1"' in page
    shown = Page(browser.follow(browser.post("/reconciliation/accept", fields | {"reason": "booked by hand"})).text)
    assert shown.texts["h1"] == ["Money and cards match"]
    assert "money_without_order pi_1" in shown.text
    assert "booked by hand" in shown.text
    assert accepted(world) == [{"item": "pi_1", "by": "admin token", "reason": "booked by hand"}]


@pytest.mark.parametrize(
    "changes", [{"reason": ""}, {"reason": "  "}, {"kind": "odd"}, {"reference": "other"}, {"tenant_id": "acme"}]
)
def test_what_is_no_line_is_not_accepted(world: World, browser: Browser, changes: dict[str, str]) -> None:
    fields = stray(world, "pi_1") | {"reason": "why"} | changes
    shown = browser.follow(browser.post("/reconciliation/accept", fields))
    assert 'class="notice error"' in shown.text
    assert accepted(world) == []


def test_a_token_of_one_tenant_sees_and_accepts_its_own(world: World) -> None:
    browser = Browser(world)
    browser.sign_in(create_token(world, name="acme", scopes=["admin"], tenant_id="acme"))
    other, own = stray(world, "pi_1"), stray(world, "pi_2", tenant="acme")
    page = browser.get("/reconciliation").text
    assert "pi_2" in page
    assert "pi_1" not in page
    for fields in (other, own):
        browser.post("/reconciliation/accept", fields | {"reason": "why"})
    assert [row["item"] for row in accepted(world)] == ["pi_2"]
    assert browser.get("/reconciliation?tenant_id=default").status_code == 403
