"""Each view: what axe-core finds in both schemes, whether it fits small and large screens, and without scripts."""

import pytest

from tests.browser.conftest import axe_findings
from tests.browser.site import Site
from tests.support.world import an_order

VIEWS = (
    "/", "/orders", "/orders/default/order-1", "/jobs", "/jobs?status=error", "/jobs/1", "/jobs/{dead}",
    "/jobs/{dead}/payload", "/errors", "/operations", "/stages", "/schedules", "/webhooks", "/reports",
    "/reconciliation", "/tokens", "/audit", "/doctor", "/nothing",
)  # fmt: skip
HOSTILE = (
    '"><img src=x onerror=document.title=1><script>document.title=2</script>\u202e{{ 7 * 7 }}\U0001f381' + 300 * "x"
)
WIDTHS = (320, 390, 768, 1280, 2560)


@pytest.fixture
def filled(site: Site) -> Site:
    """The page over a day's work: an order, a dead letter, an open circuit, and hostile text in what people enter."""
    world = site.world
    assert world.submit(an_order(correlation_id="order-1", message=HOSTILE[:200])).status_code == 202
    world.add("report", {"day": HOSTILE})
    for number in range(11):
        flow = f"{number}{HOSTILE}"[:150]
        world.add("http_call", {"url": "https://shop.example/stock"}, max_attempts=1, correlation_id=flow)
    for _ in range(6):
        world.tick()
    world.sql(
        "insert into public.giftcard_stages (stage, paused_at, paused_by, reason) values ('send_mail', now(), %s, %s)",
        HOSTILE,
        HOSTILE,
    )
    site.sign_in()
    return site


def addresses(site: Site) -> list[str]:
    dead = site.world.value("select id from public.giftcard_jobs where stage = 'report'")
    return [view.format(dead=dead) for view in VIEWS]


def test_every_view_fits_every_width_shows_text_of_others_as_text_and_is_accessible(filled: Site, axe: str) -> None:
    wrong = []
    for view in addresses(filled):
        filled.open(view)
        assert filled.title not in ("1", "2")
        assert filled.all("main script, main img") == []
        assert "49\U0001f381" not in filled.text
        wrong += filled.too_wide(WIDTHS)
        filled.width(1280)
        wrong += [f"{view}: {finding}" for finding in axe_findings(filled, axe, schemes=("light", "dark"))]
    assert wrong == []


def test_without_scripts_the_first_screen_and_the_jobs_are_whole(filled: Site) -> None:
    filled.scripts(False)
    try:
        filled.open("/")
        assert "is down since" in filled.find(".verdict h1").text
        assert "UTC" in filled.find(".verdict").text
        filled.open("/jobs?status=error")
        assert "report" in filled.text
        filled.open("/jobs?status=error&stage=report")
        assert len(filled.all("main tbody tr")) == 1
    finally:
        filled.scripts(True)
