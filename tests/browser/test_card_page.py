"""The customer's page in a browser: axe-core finds nothing, no width is scrolled sideways, the card is one sheet."""

import base64
import re
from collections.abc import Callable, Iterator

import pytest

from tests.browser.conftest import axe_findings
from tests.browser.site import Site
from tests.support.world import an_order

PUBLIC_URL = "https://cards.example.com"
LONG = {
    "customer": {"given_name": "Maximiliane-Wilhelmina Constantinopolitanskaya von der Heide zu Hohenstein"},
    "amount": {"amount": 1_000_000_000, "currency": "UGX"},
    "message": ("Happy birthday and many happy returns! " * 52)[:2000],
}
WIDTHS = (320, 390, 900, 1280, 2560)
SCHEMES = ("light", "dark")


def order(site: Site, **changes: object) -> str:
    """The path of the page of an order."""
    link: str = site.world.submit(an_order(**changes)).json["page_url"]
    return link.removeprefix(PUBLIC_URL)


@pytest.fixture
def shop(make_site: Callable[..., Site]) -> Iterator[Site]:
    site = make_site(GIFTCARD_PUBLIC_URL=PUBLIC_URL)
    yield site
    site.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    site.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def sheets(shop: Site) -> int:
    pdf = base64.b64decode(shop.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_every_view_is_accessible_and_fits(shop: Site, axe: str) -> None:
    waiting = order(shop)
    views = ["/o/wrong", waiting, f"{waiting}?still"]
    for path in views:
        assert axe_findings(shop.open(path), axe, schemes=SCHEMES) == [], path
    assert shop.open(waiting).too_wide(WIDTHS) == []
    plain, long = order(shop, message="For you"), order(shop, **LONG)
    shop.world.drain()
    for path in (plain, long):
        assert axe_findings(shop.open(path), axe, schemes=SCHEMES) == [], path
        assert shop.too_wide(WIDTHS) == []
        assert sheets(shop) == 1


def test_page_that_waits_shows_the_card_by_itself_unless_it_is_stopped(
    shop: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.web.card_page.routes._RELOAD_SECONDS", 1)
    path = order(shop)
    shop.scripts(enabled=False)
    try:
        shop.open(path)
        assert "Your order is here" in shop.text
        shop.world.drain()
        shop.wait_for_text("here is your gift card")
    finally:
        shop.scripts(enabled=True)
    waiting = order(shop, correlation_id="order-2")
    shop.open(waiting)
    shop.browser.find_element("link text", "Stop reloading").click()
    assert shop.address == f"{waiting}?still"
    assert "This page does not reload." in shop.text
