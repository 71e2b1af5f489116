"""Times: as elements that scripts make local, also those within a text of the database."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lib.web.page
from lib.web.page import render
from tests.support.world import World
from tests.web.page.conftest import Browser
from tests.web.page.troubles import HOSTILE, kill, open_circuit, ran

ROOM = Path(lib.web.page.__file__).parent
AT = '<time datetime="2026-11-29T14:19:45Z">29 Nov 14:19:45 UTC</time>'


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-29 14:19:45Z",
        "2026-11-29T14:19:45Z",
        "2026-11-29 14:19:45 UTC",
        "2026-11-29 14:19:45.123456+00",
        "2026-11-29T15:19:45+01:00",
        "2026-11-29T15:19:45.5+0100",
    ],
)
def test_a_time_in_a_text_is_an_element(written: str) -> None:
    assert render.moments(f"open until {written}, then <b>") == f"<bdi>open until {AT}, then &lt;b&gt;</bdi>"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-29 14:19:45",  # of which zone?
        "2026-11-29",
        "2026-02-31 14:19:45Z",
        "9999-12-31 23:59:59-23",
        "order-2026-11-29T14:19:45Z",
        "2026-11-29T14:19:45Zebra",
        "\u0661\u0662026-11-29 14:19:45Z",
        "",
    ],
)
def test_what_is_no_time_stays(text: str) -> None:
    assert render.moments(text) == f"<bdi>{text}</bdi>"


def test_no_text_is_a_dash_and_hostile_text_is_text() -> None:
    assert render.moments(None) == "<bdi>–</bdi>"
    assert "<script>" not in render.moments(HOSTILE)
    assert "\u202e" not in render.moments("a\u202eb")


def test_a_minute_has_no_seconds() -> None:
    moment = datetime(2026, 11, 29, 14, 19, tzinfo=UTC)
    assert render.time(moment, "minute") == '<time datetime="2026-11-29T14:19Z">14:19 UTC</time>'


@pytest.mark.parametrize("address", ["/", "/stages", "/jobs", "/jobs/1", "/jobs/2", "/errors"])
def test_no_page_shows_a_time_as_the_database_writes_it(world: World, browser: Browser, address: str) -> None:
    """In any text that a page shows: why a job waits, an error, a reason."""
    ran(world)
    said = "2026-11-29 14:19:45Z"
    open_circuit(world, error=f"answered 503 until {said}")
    kill(world, world.add("email"), error=f"PermanentError: not before {said}")
    world.sql("update giftcard_jobs set scheduled_at = now() - interval '10 min' where status = 'queued'")
    world.sql("insert into giftcard_stages (stage, paused_by, paused_at, reason) values ('email', 'kim', now(), %s),"
              " ('*', 'kim', now(), %s)", f"until {said}", f"until {said}")  # fmt: skip
    html = re.sub(r"<time .*?</time>|<[^>]+>|<title>.*?</title>", "", browser.get(address).text, flags=re.DOTALL)
    assert not re.search(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", html), html


def test_scripts_show_24_hours() -> None:
    script = (ROOM / "static/page.js").read_text(encoding="utf-8")
    clocks = re.findall(r"DateTimeFormat\(undefined, (.*?)\);", script)
    assert len(clocks) == 4
    for options in clocks:
        assert "hourCycle" in options or "hours" in options or "hour" not in options
    assert script.count('hourCycle: "h23"') == 2


def test_the_sheet_has_no_side_that_writing_from_right_to_left_would_not_turn() -> None:
    sheet = re.sub(r"/\*.*?\*/", "", (ROOM / "static/page.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(
        r"(?:^|[{;\s])((?:margin|padding|border|inset)?-?(?:left|right)(?:-[a-z]+)*\s*:|(?:text-align|float|clear):\s*"
        r"(?:left|right)|border-(?:top|bottom)-(?:left|right)-radius)", sheet,
    )  # fmt: skip
    assert found == []
