"""A night: find what is wrong, read why, fix it, see it work."""

import json

from tests.browser.site import Site
from tests.support.world import an_order

BAD_DAY = {"day": "the day before yesterday"}


def test_a_dead_letter_is_found_read_corrected_and_completed(site: Site) -> None:
    world = site.world
    job = world.add("report", BAD_DAY)
    world.tick()
    site.sign_in()
    assert "report" in site.find(".verdict h1").text
    assert "report" in site.title
    site.press("Errors")
    site.press(f"job {job}")
    site.wait_for_text("payload: day is not a day like 2026-01-31")
    assert site.address == f"/jobs/{job}"
    site.press("Correct the payload")
    assert json.loads(site.find("main textarea").get_attribute("value")) == BAD_DAY
    site.type("payload", '{"day": "2026-11-2x"}')
    site.type("reason", "a typing error")
    site.press("Requeue with this payload")
    assert "day" in site.find("#errors").text
    assert site.find("main textarea").get_attribute("value").strip() == '{"day": "2026-11-2x"}'
    site.type("payload", '{"day": "2026-11-20"}')
    site.press("Requeue with this payload")
    site.wait_for_text("queued")
    assert world.statuses() == {"queued": 1}
    site.open(f"/jobs/{job}")
    world.tick()
    site.wait_for_text("completed")  # by its poll
    assert site.title == f"Job {job}: completed"


def test_a_circuit_opens_counts_down_and_is_closed(site: Site) -> None:
    world = site.world
    for _ in range(11):
        world.add("http_call", {"url": "https://shop.example/stock"}, max_attempts=1)
    world.add("http_call", {"url": "https://shop.example/stock"})
    world.tick()
    site.sign_in()
    assert "http_call is down since" in site.find(".verdict h1").text
    assert "http_call is down" in site.title
    before = _seconds(site.find(".countdown time").text)
    site.wait(lambda: _seconds(site.find(".countdown time").text) < before, "the countdown")
    site.press("Close the circuit", within=".verdict")
    site.type("reason", "the shop is back")
    site.press("Close the circuit", within=".verdict form")
    site.wait(lambda: world.value("select state from public.giftcard_circuits") == "closed", "the reset")
    site.wait(lambda: "is down" not in site.title, "the verdict")
    assert "reset circuit" in site.open("/audit").text


def _seconds(countdown: str) -> int:
    """Read "59 s" and "1 min 0 s"."""
    *minutes, seconds, _unit = countdown.split()
    return int(seconds) + 60 * int(minutes[0] if minutes else 0)


def test_a_bulk_requeue_of_10000_shows_its_progress(site: Site) -> None:
    world = site.world
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage, payload, status, attempts, last_error, finished_at)"
        " select 'flow-' || n, 'send_mail', '{}', 'error', 5, 'TransientError: mail server 4' || n %% 10, now()"
        " from generate_series(1, 10000) n"
    )
    world.sql("insert into public.giftcard_stages (stage, paused_at, paused_by) values ('send_mail', now(), 'test')")
    site.sign_in()
    site.open("/errors")
    site.press("Requeue")
    site.wait_for_text("Requeue 10,000 jobs?")
    site.type("reason", "the mail server is back")
    site.press("Requeue 10,000 jobs")
    site.wait_for_text("0 of 10,000 processed")
    for _ in range(20):
        world.tick()
        if world.value("select state from public.giftcard_operations") == "completed":
            break
    site.wait_for_text("10,000 of 10,000 processed, 10,000 changed")
    site.wait(lambda: "completed" in site.title, "the end")
    assert world.statuses() == {"queued": 10_000}


def test_the_search_of_every_page_finds_an_order_by_its_recipient(site: Site) -> None:
    site.world.submit(an_order(correlation_id="order-1"))
    site.world.drain()
    site.sign_in()
    site.find("input[type=search]").send_keys("kate@example.com\n")
    site.wait_for_text("order-1")
    assert "kate" not in site.address
    site.press("order-1", within="main")
    events = site.find(".timeline").text
    for stage in ("customer_ingest", "personal_code", "payment", "issue_card", "email"):
        assert stage in events
    assert site.world.value("select last4 from public.giftcard_cards") in site.text
