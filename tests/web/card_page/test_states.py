"""What the page of an order shows, from the order to the card, and whatever goes wrong between."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import ADMIN, World, an_order, bearer

Visit = Callable[..., Any]

NUMBER = re.compile(r"9900 \d{4} \d{4} \d{4}")
FLOW = {"tenant_id": "default", "correlation_id": "order-1"}


def order(shop: World, **changes: Any) -> str:
    """An order; the link to its page."""
    link: str = shop.submit(an_order(correlation_id="order-1", **changes)).json["page_url"]
    return link


def title(answer: Any) -> str:
    """The heading, which the title of the tab repeats unless there is a card."""
    assert answer.status_code == 200
    found = html.unescape(re.search("<h1>(.*?)</h1>", answer.text, re.DOTALL)[1])  # type: ignore[index]
    return re.sub("<.*?>", "", found)


def decide(shop: World, path: str, body: Any) -> None:
    answer = shop.client.post(f"/api/v1/{path}", json=body, headers=bearer(ADMIN))
    assert answer.status_code in (200, 202), answer.text


def pay(shop: World, *, worth: int = 2500) -> None:
    shop.sql(
        """insert into giftcard_payments (tenant_id, provider, provider_ref, correlation_id, amount, currency, worth,
                                          created_at)
           values ('default', 'ledger', 'p', 'order-1', 2500, 'USD', %s, clock_timestamp())""",
        worth,
    )


def test_order_becomes_a_card(shop: World, visit: Visit) -> None:
    link = order(shop, message="Happy birthday!\n\nSee you on Sunday.")
    assert title(visit(shop, link)) == "Your order is here"
    pay(shop)
    assert title(visit(shop, link)) == "Your card is being made"
    shop.sql("delete from giftcard_payments")
    shop.drain()
    answer = visit(shop, link)
    assert title(answer) == "Hello Kate, here is your gift card."
    for shown in ("<title>Your gift card</title>", "$25.00", "KATE1520", "Happy birthday!\n\nSee you on Sunday."):
        assert shown in answer.text
    assert NUMBER.search(answer.text)
    assert "Left on the card" not in answer.text


def test_qr_code_holds_the_card_number(shop: World, visit: Visit) -> None:
    import segno

    link = order(shop)
    shop.drain()
    text = visit(shop, link).text
    number = NUMBER.search(text)[0].replace(" ", "")  # type: ignore[index]
    expected = segno.make(number, error="m", micro=False).svg_inline(omitsize=True, light="#fff", svgclass=None)
    assert expected in text


def test_paid_order_without_a_card_is_late_after_a_while(shop: World, visit: Visit) -> None:
    link = order(shop)
    pay(shop)
    shop.sql("update giftcard_payments set created_at = created_at - interval '16 minutes'")
    assert title(visit(shop, link)) == "Your card takes longer than usual"


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_order_whose_job_is_dead_is_late(shop: World, visit: Visit, status: str) -> None:
    link = order(shop)
    shop.sql("update giftcard_jobs set status = %s, finished_at = clock_timestamp()", status)
    assert title(visit(shop, link)) == "Your card takes longer than usual"


def test_refunded_order_gets_no_card(shop: World, visit: Visit) -> None:
    link = order(shop)
    pay(shop, worth=0)
    assert title(visit(shop, link)) == "Your money went back"


CHANGES: dict[str, tuple[str, Callable[[World], Any]]] = {
    "blocked": ("This card is blocked", lambda shop: shop.store.block_card(**FLOW, balance=None)),
    "unpaid": ("This card is blocked", lambda shop: shop.sql("update giftcard_cards set unpaid = 1")),
    "spent": ("This card is used up", lambda shop: shop.sql(
        "update giftcard_cards set state = 'redeemed', balance = 0")),
    "cancelled": ("This order is cancelled", lambda shop: decide(shop, "flows/order-1/cancel", {})),
    "erased": ("This order was deleted", lambda shop: shop.sql(
        "select giftcard_erase_customer(id, p_by => 'kate') from giftcard_customers")),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_card_that_may_not_be_used_hides_its_number(shop: World, visit: Visit, change: str) -> None:
    link = order(shop)
    shop.drain()
    assert NUMBER.search(visit(shop, link).text)
    heading, act = CHANGES[change]
    act(shop)
    answer = visit(shop, link)
    assert title(answer) == heading
    assert not NUMBER.search(answer.text)
    for hidden in ("Kate", "KATE1520", "svg class", "order-1"):
        assert hidden not in answer.text


def test_what_is_left_is_shown_once_something_was_spent(shop: World, visit: Visit) -> None:
    link = order(shop, locale="de-CH", amount={"amount": 2500, "currency": "CHF"})
    shop.drain()
    shop.sql("update giftcard_cards set balance = 1250")
    text = visit(shop, link).text
    assert "Noch auf der Karte" in text
    assert "CHF 12.50" in text
    assert "CHF 25.00" in text


def test_page_of_an_open_order_reloads_until_it_is_asked_not_to(shop: World, visit: Visit) -> None:
    link = order(shop)
    answer = visit(shop, link)
    assert answer.headers["Refresh"] == "30"
    assert '<a href="?still">' in answer.text
    still = visit(shop, link + "?still")
    assert "Refresh" not in still.headers
    assert '<a href="?">' in still.text
    shop.drain()
    assert "Refresh" not in visit(shop, link).headers


def test_database_that_is_away_is_a_page_that_reloads(shop: World, visit: Visit, log: Callable[[], Any]) -> None:
    link = order(shop)
    shop.sql("alter function giftcard_card_page(bigint, timestamptz) rename to giftcard_card_page_away")
    answer = visit(shop, link)
    assert (answer.status_code, answer.headers["Refresh"], answer.headers["Retry-After"]) == (503, "30", "30")
    assert "Please come back in a moment" in answer.text
    assert [line["event"] for line in log() if line["level"] == "error"] == ["request_failed"]


@pytest.mark.parametrize(
    "change",
    [
        "update giftcard_cards set number_encrypted = 'v2.000000000000.AAAA'",
        "update giftcard_cards set number_encrypted = 'é'",
        "update giftcard_orders set details = '[]' || details",
        """update giftcard_orders set details = '{"customer": 1e999}'""",
        """update giftcard_orders set details = details || '{"message": 7}'""",
    ],
)
def test_card_that_cannot_be_read_is_logged_and_told_kindly(
    shop: World, visit: Visit, log: Callable[[], Any], change: str
) -> None:
    link = order(shop)
    shop.drain()
    shop.sql("alter table giftcard_orders drop constraint giftcard_orders_details_are_an_object")
    shop.sql(change)
    answer = visit(shop, link)
    assert answer.status_code == (500 if "'[]'" in change else 503)
    assert "Please come back in a moment" in answer.text
    (line,) = [line for line in log() if line["event"] == "request_failed"]
    assert "kate@example.com" not in str(line)
