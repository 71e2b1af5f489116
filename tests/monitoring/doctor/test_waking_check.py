"""Waking as the doctor sees it: configured whole, sent, and followed."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.monitoring.doctor.conftest import Examine
from tests.support.world import World

Make = Callable[..., World]

HERE = {"GIFTCARD_PUBLIC_URL": "https://cards.example.com", "GIFTCARD_TICK_LINGER": "1"}
WOKEN = "update giftcard_wakes set sent = 3, sent_at = clock_timestamp() - interval '{} seconds'"


@pytest.mark.parametrize(
    ("settings", "statement", "level", "message"),
    [
        ({}, "", "green", "off: jobs that come between two ticks wait for the clock, up to a minute"),
        ({"GIFTCARD_WAKE": "url"} | HERE, "", "green", "by url: no tick had to be woken yet"),
        ({"GIFTCARD_WAKE": "url"}, "", "yellow", "GIFTCARD_WAKE is url, but no address is known: no tick is woken"),
        ({"GIFTCARD_WAKE": "pg_net"}, "", "yellow", "GIFTCARD_WAKE is pg_net, but the database wakes no tick"),
        (
            {},
            "update giftcard_wakes set url = 'https://x.example'",
            "yellow",
            "the database wakes ticks by pg_net, but GIFTCARD_WAKE is off: retries wait for the clock",
        ),
        (
            {"GIFTCARD_WAKE": "url"} | HERE,
            WOKEN.format(100),
            "yellow",
            "no tick followed the last wake, 100 s ago (1 of 3 were lost)",
        ),
        (
            {"GIFTCARD_WAKE": "url", "GIFTCARD_PUBLIC_URL": "https://cards.example.com"},
            WOKEN.format(0),
            "yellow",
            "GIFTCARD_TICK_LINGER is 0: ticks wait for nothing, so each job wakes one of its own",
        ),
        (
            {"GIFTCARD_WAKE": "url"} | HERE,
            "select giftcard_count_failed_wake('Vault has no secret named x', clock_timestamp())",
            "red",
            "the last wake could not be sent: Vault has no secret named x; jobs wait for the clock",
        ),
    ],
)
def test_the_line(
    make_world: Make, examined: Examine, settings: dict[str, Any], statement: str, level: str, message: str
) -> None:
    world = make_world(**settings)
    world.sql(statement or "select 1")
    line = examined(world)["waking"]
    assert (line["level"], re.sub(r"1\d\d s ago", "100 s ago", line["message"])) == (level, message)


def test_a_tick_that_followed_the_wake_makes_it_green(make_world: Make, examined: Examine) -> None:
    world = make_world(**{"GIFTCARD_WAKE": "url"} | HERE)
    world.sql(WOKEN.format(100))
    world.tick(**{"X-Giftcard-Wake": "1"})
    world.sql("update giftcard_ticks set started_at = started_at - interval '99 seconds'")
    line = examined(world)["waking"]
    assert line["level"] == "green"
    assert re.fullmatch(r"by url: the last wake was 1\d\d s ago", line["message"])


def test_status_and_metrics_have_the_figures(make_world: Make) -> None:
    world = make_world()
    world.sql("update giftcard_wakes set sent = 3, lost = 1, held_back = 2")
    waking = world.store.status(stages={})["waking"]
    assert (waking["sent"], waking["lost"], waking["pg_net"]) == (3, 1, False)
    assert world.store.metrics(stages={})["waking"]["held_back"] == 2
