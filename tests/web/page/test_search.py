"""The search of every page: it finds orders and jobs, and puts nothing personal into an address."""

import pytest

from tests.support.world import World, an_order
from tests.web.page.conftest import Browser


@pytest.fixture
def issued(world: World) -> World:
    world.add("customer_ingest", an_order(), correlation_id="order/7")
    world.drain()
    return world


@pytest.fixture
def admin(issued: World, browser: Browser) -> Browser:
    browser.sign_in()
    return browser


def test_the_search_of_every_page_finds_orders_and_puts_no_address_into_a_url(admin: Browser, issued: World) -> None:
    last4 = issued.value("select last4 from giftcard_cards")
    for text in ("order/", "kate@example.com", last4):
        page = admin.post("/search", {"q": text})
        assert (page.status_code, 'href="/orders/default/order/7"' in page.text) == (200, True), text
    for text in ("nobody@example.com", "Jane Doe", "timeout"):
        page = admin.post("/search", {"q": text}).text
        assert "No order matches." in page
        assert f'name="error" value="{text}"' in page, "it leads on to errors"
    other = "0000" if last4 != "0000" else "0001"
    for text, address in ((other, f"/jobs/{int(other)}"), ("17", "/jobs/17"),
                          ("a\x00@b", "/orders"), ("", "/jobs")):  # fmt: skip
        assert admin.post("/search", {"q": text}).headers["Location"] == address


@pytest.mark.parametrize(
    "text",
    [
        "9900123456789012",
        "9900 1234 5678 9012",
        "4111-1111-1111-1111",
        "gct_abcdefghijklmnop",
        "https://cards.example/o/abcdefghijklmnopqrstuvwxyz012345",
    ],
)
def test_the_search_puts_no_secret_into_a_url(admin: Browser, text: str) -> None:
    response = admin.post("/search", {"q": text})
    assert (response.status_code, "No order matches." in response.text) == (200, True)


def test_a_secret_that_no_order_can_have_is_not_in_a_url(admin: Browser) -> None:
    assert admin.post("/search", {"q": "9900123456789012\x00"}).headers["Location"] == "/orders"
