"""Log lines while a progress bar is drawn: each on a line of its own, and the bar below them."""

import re
import sys

import click
import pytest

from lib.cli.prompts import progress_bar
from lib.telemetry import events
from tests.cli.conftest import Door, Terminal
from tests.support.world import World


def test_log_lines_do_not_run_into_the_bar(
    world: World, direct: Door, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def work() -> None:
        events.configure(readable=True)
        with progress_bar("Requeueing", total=3) as show:
            for done in range(1, 4):
                show(done)
                events.emit("circuit_opened", circuit=f"email-{done}")
                print("a line of", "something else", done, file=sys.stderr)  # noqa: T201 - as a library does

    monkeypatch.setitem(world.app.cli.commands["jobs"].commands, "work", work)  # type: ignore[attr-defined]
    handlers = events.LOG.handlers
    try:
        code, screen = terminal.run(world.app, "work", columns=80)
    finally:
        events.LOG.handlers = handlers
    assert code == 0, screen
    # What stays on the screen: a carriage return starts the line again, and \x1b[K clears it.
    rows = [row.rsplit("\x1b[K", 1)[-1] for row in screen.replace("\r\n", "\n").split("\n")]
    rows = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", row).rpartition("\r")[2] for row in rows]
    logged = [row for row in rows if "circuit_opened" in row or "something else" in row]
    assert len(logged) == 6, rows
    assert not any("Requeueing" in row for row in logged), rows
    assert sum("Requeueing" in row for row in rows) == 1, rows
