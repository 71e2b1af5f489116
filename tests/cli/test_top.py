"""`flask jobs top` in a real terminal: what it draws, its keys, its sizes, and a database that goes away."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lib.cli.layout import cell_width
from tests.cli.conftest import Door, dead_letters
from tests.support.windows import a_window
from tests.support.world import ADMIN, World

LEFT = "\x1b[?25h\x1b[?1049l"


@pytest.fixture
def at_night(busy: World) -> World:
    """Orders, dead letters, and a circuit that is open."""
    busy.sql(
        """insert into giftcard_circuits (circuit, state, failures, changed_at, open_until)
           values ('payment', 'open', 3, now(), now() + interval '10 minutes')"""
    )
    return busy


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_it_draws_sorts_and_quits(at_night: World, database_url: str, columns: int, rows: int) -> None:
    with a_window("top", columns=columns, rows=rows, DATABASE_URL=database_url) as window:
        lines = window.until(lambda text: "stages by flow" in text and "payment is down" in text)
        assert max(map(cell_width, lines)) <= columns
        assert len(lines) == rows
        text = "\n".join(lines)
        for part in ("flask jobs circuits reset payment", "ticks ", "last ", "today ", "issue_card", "dead letters"):
            assert part in text
        window.type("s")
        lines = window.until(lambda text: "stages by waiting" in text)
        (head,) = [line for line in lines if line.startswith("stage ")]
        assert "waiting▾" in head
        window.resize(60, 20)
        lines = window.until(lambda text: len(text.split("\n")) == 20)
        assert max(map(cell_width, lines)) <= 60
        window.type("q")
        assert window.end() == 0
        assert window.output.endswith(LEFT)


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "code"), [("\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_whatever_ends_it_the_terminal_is_as_it_was(database_url: str, ending: str | signal.Signals, code: int) -> None:
    with a_window("top", columns=80, rows=24, DATABASE_URL=database_url) as window:
        window.until(lambda text: "stages by flow" in text)
        window.type(ending) if isinstance(ending, str) else os.kill(window.process.pid, ending)
        assert window.end() == code
        assert window.output.rstrip().endswith(LEFT), window.output[-300:]


@pytest.mark.slow
def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(database_url: str) -> None:
    with a_window("top", columns=80, rows=24, DATABASE_URL=database_url) as window:
        window.until(lambda text: "stages by flow" in text)
        window.type("\x1a")
        window.until(lambda _: "State:\tT" in Path(f"/proc/{window.process.pid}/status").read_text())
        window.until(lambda _: LEFT in window.output)
        seen = len(window.output)
        os.kill(window.process.pid, signal.SIGCONT)
        window.until(lambda _: "\x1b[?1049h" in window.output[seen:])
        window.type("q")
        assert window.end() == 0


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to another database of the same server."""
    with psycopg.connect(database_url, dbname="postgres", autocommit=True) as connection:
        yield connection


@pytest.mark.slow
def test_last_frame_stays_while_the_database_is_away(
    at_night: World, database_url: str, admin: psycopg.Connection
) -> None:
    name = at_night.value("select current_database()")
    with a_window("top", "--interval", "0.5", columns=80, rows=24, DATABASE_URL=database_url) as window:
        window.until(lambda text: "payment is down" in text)
        admin.execute(f'alter database "{name}" allow_connections false')
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name <> 'test'",
            (name,),
        )
        lines = window.until(lambda text: text.startswith("The database cannot be asked since "))
        assert "payment is down" in "\n".join(lines)
        assert any(line.startswith("Below is the state of ") for line in lines)
        assert max(map(cell_width, lines)) <= 80
        admin.execute(f'alter database "{name}" allow_connections true')
        window.until(lambda text: text.startswith("payment is down"))
        window.type("q")
        assert window.end() == 0


@pytest.mark.slow
def test_wrong_token_ends_it_with_one_sentence(remote: Door) -> None:
    with a_window("--url", str(remote.url), "top", columns=80, rows=24, GIFTCARD_ADMIN_TOKEN="wrong" * 5) as window:
        assert window.end() == 2
        assert "Error: GIFTCARD_ADMIN_TOKEN is no token of 127.0.0.1" in window.output.partition(LEFT)[2]


@pytest.mark.slow
def test_it_shows_a_deployment_through_its_api(at_night: World, remote: Door) -> None:
    with a_window("top", columns=80, rows=24, GIFTCARD_URL=str(remote.url), GIFTCARD_ADMIN_TOKEN=ADMIN) as window:
        window.until(lambda text: "payment is down" in text)
        window.type("q")
        assert window.end() == 0


def test_one_frame_for_scripts(at_night: World, door: Door) -> None:
    dead_letters(at_night, 1, stage="issue_card", error="\x1b[31mTransientError: \u202e kate@example.com \x07")
    for words in (["top"], ["top", "--once"]):
        text = door.says(*words)
        assert text.startswith("payment is down since ")
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "kate@" not in text
    assert door.json("top")["verdict"]["kind"] == "circuit"


def test_ascii_alone(at_night: World, direct: Door) -> None:
    assert direct.says("top", "--once", "--ascii").isascii()


@pytest.mark.parametrize("value", ["0", "-1", "x", "3601"])
def test_interval_is_checked(direct: Door, value: str) -> None:
    assert "--interval" in direct.refuses("top", "--interval", value)
