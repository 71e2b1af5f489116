"""The stages: a pipeline in the order's sequence, and what holds and releases a stage."""

import re
from collections.abc import Callable

import pytest

from lib.jobs.registry import Registry
from tests.support.working import works
from tests.support.world import World, a_stage
from tests.web.page.conftest import Browser
from tests.web.page.test_overview import text
from tests.web.page.troubles import counting, kill, open_circuit, ran

FLOW = ["customer_ingest", "personal_code", "payment", "issue_card", "email"]


def cards(html: str) -> dict[str, str]:
    """The cards by stage, in their order."""
    found = re.findall(r'<li class="stage full[^"]*" id="stage-([^"]+)">(.*?)</li>', html, re.DOTALL)
    return dict(found)


def test_the_stages_of_an_order_come_first_in_their_sequence(browser: Browser) -> None:
    shown = list(cards(browser.get("/stages").text))
    assert shown[:5] == FLOW
    assert {"report", "send_mail", "webhook"} <= set(shown[5:])


def test_a_flow_of_its_own_has_its_sequence(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_ORDER_FLOW="customer_ingest,personal_code,payment,issue_card,loyalty_points,email")
    browser = Browser(world)
    browser.sign_in()
    assert list(cards(browser.get("/stages").text))[4:6] == ["loyalty_points", "email"]


def test_a_card_has_its_counts_and_leads_to_the_jobs(world: World, browser: Browser) -> None:
    for attempts in (0, 0, 1):
        world.add("payment", attempts=attempts)
    kill(world, world.add("payment"))
    card = cards(browser.get("/stages").text)["payment"]
    assert "waiting 2 running 0 retrying 1 dead 1" in text(card)
    assert 'href="/jobs?status=queued&amp;stage=payment"' in card
    assert 'href="/jobs?status=error&amp;stage=payment"' in card


def test_a_card_has_the_rate_and_the_durations_of_the_last_hour(make_world: Callable[..., World]) -> None:
    world = make_world(handlers={"email": works})
    world.add("email")
    world.add("email", {"fails": "ever"})
    world.tick()
    browser = Browser(world)
    browser.sign_in()
    assert re.search(r"50\.?0? % well · p50 \d+ ms", text(cards(browser.get("/stages").text)["email"]))


def test_a_pause_asks_for_a_reason(world: World, browser: Browser) -> None:
    assert browser.post("/stages/pause", {"stage": "payment"}).status_code == 422
    html = browser.follow(browser.post("/stages/pause", {"stage": "payment", "reason": "month end"})).text
    assert "payment is paused: its jobs wait and lose no attempt." in html
    assert "paused by admin token: month end" in text(cards(html)["payment"])
    html = browser.follow(browser.post("/stages/resume", {"stage": "payment", "reason": "it is over"})).text
    assert "payment is resumed" in html
    assert "paused by" not in text(cards(html)["payment"])


def test_everything_can_be_paused_and_resumed(world: World, browser: Browser) -> None:
    html = browser.follow(browser.post("/stages/pause", {"stage": "*", "reason": "migration"})).text
    assert "Everything is paused by admin token since" in text(html)
    assert "The tick ran nothing: everything is paused." in browser.follow(browser.post("/tick")).text
    html = browser.follow(browser.post("/stages/resume", {"stage": "*", "reason": "it is over"})).text
    assert "Everything is resumed" in html


def test_an_unknown_stage_is_refused_with_a_sentence(browser: Browser) -> None:
    html = browser.follow(browser.post("/stages/pause", {"stage": "nothing", "reason": "x"})).text
    assert 'class="notice error"' in html
    assert "there is no stage nothing" in html


@pytest.mark.parametrize("circuit", ["payment", "http_call:https://shop.example/a b", "payment:ü"])
def test_a_circuit_is_closed(world: World, browser: Browser, circuit: str) -> None:
    open_circuit(world, circuit)
    assert f"The circuit {circuit} is open" in text(browser.get("/stages").text)
    html = browser.follow(browser.post("/circuits/reset", {"circuit": circuit, "reason": "it works again"})).text
    assert f"The circuit {circuit} is closed" in text(html)
    assert world.sql("select state from giftcard_circuits") == [{"state": "closed"}]


def test_a_tick_runs_what_is_due(make_world: Callable[..., World]) -> None:
    world = make_world(handlers={"email": works})
    world.enqueue("email", count=3)
    browser = Browser(world)
    browser.sign_in()
    html = browser.follow(browser.post("/tick", {"back": "/"})).text
    assert "The tick ran 3 jobs: 3 completed." in html
    assert world.sql("select source from giftcard_ticks") == [{"source": "manual"}]


def test_a_tick_is_registered_so_that_a_shutdown_stops_it(make_world: Callable[..., World]) -> None:
    world = make_world(handlers={"email": works})
    world.enqueue("email", count=3)
    world.services.shutdown.asked.set()
    browser = Browser(world)
    browser.sign_in()
    assert "The tick ran 0 jobs." in browser.follow(browser.post("/tick")).text


def test_a_stage_waits_for_a_setting(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="http")
    world.add("payment")
    browser = Browser(world)
    browser.sign_in()
    for address in ("/", "/stages"):
        assert "needs GIFTCARD_PAYMENT_URL" in text(browser.get(address).text)


def test_stages_that_cannot_be_loaded_are_listed(make_world: Callable[..., World]) -> None:
    registry = Registry({"email": a_stage("email", works)}, broken={"loyalty": "SyntaxError: <b>"})
    browser = Browser(make_world(registry=registry))
    browser.sign_in()
    html = browser.get("/stages").text
    assert "Stages that cannot be loaded" in html
    assert "<code>loyalty</code>: <bdi>SyntaxError: &lt;b&gt;</bdi>" in html


def test_a_card_has_the_settings_in_force(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_STAGE_PAYMENT_CONCURRENCY="3", GIFTCARD_STAGE_PAYMENT_RATE="600/min")
    browser = Browser(world)
    browser.sign_in()
    card = cards(browser.get("/stages").text)["payment"]
    assert re.search(r">concurrency</th><td>3</td><td[^>]*>GIFTCARD_STAGE_PAYMENT_CONCURRENCY</td>", card)
    assert re.search(r">rate</th><td>10/s burst 10</td><td[^>]*>GIFTCARD_STAGE_PAYMENT_RATE</td>", card)


def test_a_pause_by_the_setting_is_not_resumed_here(make_world: Callable[..., World]) -> None:
    browser = Browser(make_world(GIFTCARD_PAUSED="1"))
    browser.sign_in()
    html = browser.get("/stages").text
    assert "unset it and deploy again" in html
    assert "Resume everything" not in html


def test_no_change_costs_more_calls_than_its_own(world: World, browser: Browser) -> None:
    ran(world)
    wire = counting(world)
    browser._client.post("/stages/pause", data={"csrf": browser.csrf(), "stage": "payment", "reason": "x"})
    assert wire.calls == ["giftcard_pause"]
