"""The first screen: the verdict with its button, and three questions, from one call of the database."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.caller import Caller
from tests.support.world import World, an_order
from tests.web.page.conftest import Browser
from tests.web.page.test_session import create_token
from tests.web.page.troubles import HOSTILE, counting, kill, open_circuit, ran


def title(html: str) -> str:
    found = re.search(r"<title>(.*?)</title>", html)
    assert found
    assert f'data-title="{found[1]}"' in html
    return found[1]


def verdict(html: str) -> str:
    found = re.search(r'<section class="verdict.*?</section>', html, re.DOTALL)
    assert found
    return found[0]


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


def test_the_verdict_comes_first_and_is_the_title(world: World, browser: Browser) -> None:
    ran(world)
    open_circuit(world)
    html = browser.get("/").text
    assert title(html) == "! payment is down – Gift cards"
    shown = verdict(html)
    assert "payment is down since" in text(shown)
    assert "2 orders wait and lose no attempt" in text(shown)
    assert html.index("<h1>") < html.index("Is it working?") < html.index("Is anything stuck?")


def test_countdowns_are_times_that_a_script_counts(world: World, browser: Browser) -> None:
    ran(world)
    open_circuit(world)
    until = world.value("select to_char(open_until at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from"
                        " giftcard_circuits")  # fmt: skip
    html = browser.get("/").text
    # In the verdict, on the stage's card, and among what is stuck.
    assert html.count(f'<time datetime="{until}" data-show="left">') == 3


def test_all_is_well(world: World, browser: Browser) -> None:
    world.submit(an_order())
    world.drain()
    ran(world)
    html = browser.get("/").text
    assert title(html) == "✓ All is well – Gift cards"
    assert '<section class="verdict ok"' in html
    assert "Is it working? Yes." in text(html)
    assert "Is anything stuck? No." in text(html)
    assert "orders" not in verdict(html)
    assert "$25.00" in html


def _paused(world: World) -> None:
    world.store.pause("payment", paused_by="kim", reason="books", caller=Caller("kim"))
    world.enqueue("payment")


def _unknown(world: World) -> None:
    world.sql("insert into giftcard_jobs (correlation_id, stage, payload) values ('f', 'no_such_stage', '{}')")


def _dead(world: World) -> None:
    for job_id in world.enqueue("email", count=2):
        kill(world, job_id)


@pytest.mark.parametrize(
    ("trouble", "address", "fields"),
    [
        (_paused, "/stages/resume", {"stage": "payment"}),
        (open_circuit, "/circuits/reset", {"circuit": "payment"}),
        (_dead, "/requeue", {"job_id": "2"}),
        (lambda world: world.sql("delete from giftcard_ticks"), "/tick", {}),
        (_unknown, "/jobs?stage=no_such_stage&amp;status=queued", None),
    ],
)
def test_each_trouble_has_the_button_that_fixes_it(
    world: World, browser: Browser, trouble: Callable[[World], Any], address: str, fields: dict[str, str] | None
) -> None:
    ran(world)
    trouble(world)
    shown = verdict(browser.get("/").text)
    if fields is None:
        assert f'href="{address}"' in shown
        return
    assert f'action="{address}"' in shown
    for name, value in fields.items():
        assert f'name="{name}" value="{value}"' in shown
    reason = {"reason": "the cause is corrected"} if 'name="reason"' in shown else {}
    html = browser.follow(browser.post(address, fields | reason)).text
    assert 'class="notice done"' in html, html


def test_dead_letters_of_one_kind_are_requeued_by_an_operation_with_a_reason(world: World, browser: Browser) -> None:
    _dead(world)
    assert browser.post("/requeue", {"job_id": "1"}).status_code == 422
    html = browser.follow(browser.post("/requeue", {"job_id": "1", "reason": "corrected"})).text
    assert "Operation 1 requeues them" in html
    (operation,) = world.sql("select action, filter, reason from giftcard_operations")
    assert operation["filter"] == {"status": "error", "stage": "email", "error_kind": operation["filter"]["error_kind"]}
    assert operation["reason"] == "corrected"
    world.tick()
    assert world.statuses().get("error") is None


def test_a_single_dead_letter_is_requeued_at_once(world: World, browser: Browser) -> None:
    (job_id,) = world.enqueue("email")
    kill(world, job_id)
    assert 'name="alone" value="1"' in browser.get("/").text
    browser.follow(browser.post("/requeue", {"job_id": str(job_id), "alone": "1", "reason": "corrected"}))
    assert world.job(job_id)["status"] == "queued"


def test_a_token_that_reads_sees_no_button_and_can_press_none(world: World) -> None:
    ran(world)
    open_circuit(world)
    _dead(world)
    browser = Browser(world)
    browser.sign_in(create_token(world))
    html = browser.get("/").text
    assert "payment is down" in html
    assert re.findall(r'action="([^"]+)"', html) == ["/search", "/sign-out"]
    for address in ("/requeue", "/circuits/reset", "/tick", "/stages/pause", "/stages/resume"):
        assert browser.post(address, {"job_id": "1", "stage": "payment", "circuit": "payment"}).status_code == 403


def test_what_is_stuck_leads_to_it(world: World, browser: Browser) -> None:
    ran(world)
    open_circuit(world)
    kill(world, world.add("email"), error="PermanentError: no & never")
    world.sql("update giftcard_jobs set scheduled_at = now() - interval '10 min' where status = 'queued'")
    html = browser.get("/").text
    assert "Yes: a job is overdue, 1 open circuit, 1 kind of dead letters." in text(html)
    assert 'href="/jobs/1"' in html
    assert "/jobs?status=error&amp;stage=email&amp;error_kind=PermanentError%3A%20no%20%26%20never" in html


@pytest.mark.parametrize("address", ["/", "/?runs=week", "/stages"])
def test_a_view_is_one_call(world: World, browser: Browser, address: str) -> None:
    open_circuit(world)
    wire = counting(world)
    assert browser.get(address).status_code == 200
    assert wire.calls == ["giftcard_overview"]


@pytest.mark.parametrize("address", ["/", "/?runs=week", "/stages"])
def test_a_view_does_not_change_by_itself_within_a_minute(world: World, browser: Browser, address: str) -> None:
    ran(world)
    open_circuit(world, until="2 hours")
    kill(world, world.add("email"))
    wire = counting(world)
    later = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1, seconds=2)
    wire.now = later.isoformat()
    tag = browser.get(address).headers["HX-PTag"]
    wire.now = (later + timedelta(seconds=50)).isoformat()
    unchanged = browser.get(address, HX_PTag=tag)
    assert (unchanged.status_code, unchanged.text) == (304, "")


@pytest.mark.parametrize("address", ["/", "/stages"])
def test_hostile_text_shows_as_text(world: World, browser: Browser, address: str) -> None:
    ran(world)
    open_circuit(world, f"payment:{HOSTILE}", error=HOSTILE)
    kill(world, world.add("email"), error=f"PermanentError: {HOSTILE * 20}")
    world.sql("insert into giftcard_stages (stage, paused_by, paused_at, reason) values ('payment', %s, now(), %s),"
              " ('*', %s, now(), %s)", HOSTILE, HOSTILE, HOSTILE, HOSTILE)  # fmt: skip
    world.sql("insert into giftcard_jobs (correlation_id, stage, payload) values ('f', %s, '{}')", HOSTILE)
    world.sql("update giftcard_ticks set error = %s, stopped_because = 'failed'", HOSTILE)
    html = browser.get(address).text
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "{{ 7*7 }}" in html
    assert not re.search(r"\sstyle=|\son[a-z]+=", html)


def test_without_its_database_the_page_has_the_verdict_of_that(world: World, browser: Browser) -> None:
    world.sql("alter function giftcard_overview rename to giftcard_gone")
    response = browser.get("/")
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "60"
    assert title(response.text) == "! The database cannot be asked – Gift cards"
    assert "Nothing is lost" in verdict(response.text)


def test_a_capped_count_is_one_of_at_least_so_many(world: World, browser: Browser) -> None:
    world.sql("insert into giftcard_jobs (correlation_id, stage, payload)"
              " select 'f' || n, 'payment', '{}' from generate_series(1, 1100) n")  # fmt: skip
    assert ">1,000+</a>" in browser.get("/").text


@pytest.mark.slow
def test_a_view_takes_at_most_300_ms_with_100000_jobs(world: World, browser: Browser) -> None:
    world.sql("insert into giftcard_jobs (correlation_id, stage, payload, status, last_error, finished_at)"
              " select 'f' || n, (array['payment', 'email'])[1 + n %% 2], '{}',"
              " (array['queued', 'error'])[1 + (n %% 10 = 0)::int],"
              " case when n %% 10 = 0 then 'PermanentError: no' end, case when n %% 10 = 0 then now() end"
              " from generate_series(1, 100000) n")  # fmt: skip
    world.sql("analyze giftcard_jobs")
    for address in ("/", "/?runs=week", "/stages"):
        taken = []
        for _ in range(6):
            began = time.monotonic()
            assert browser.get(address).status_code == 200
            taken.append(time.monotonic() - began)
        assert min(taken) < 0.3, (address, taken)
