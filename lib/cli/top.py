"""top: the first screen of operators, live in the terminal."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import click

from lib.cli.group import cleaned, jobs, json_option, output
from lib.cli.layout import columns_of
from lib.cli.live_screen import Screen
from lib.cli.options import seconds
from lib.cli.services import job_service
from lib.cli.top_frame import frame
from lib.cli.top_stages import SORTS
from lib.cli.top_view import Line, View, ansi, has_colours
from lib.errors import Forbidden, GiftcardError, Invalid, Refused
from lib.monitoring.verdict import Verdict, after, away

Json = dict[str, Any]

# Seconds between two looks at the keyboard and the terminal's size.
_BEAT = 0.2


@jobs.command()
@click.option("--interval", type=seconds(3600), default=2, help="Seconds between two refreshes (2).")
@click.option("--once", is_flag=True, help="Print one frame, and exit; so it is where standard output is no terminal.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with plain ASCII characters alone.")
@json_option
def top(*, interval: float, once: bool, ascii_only: bool, as_json: bool) -> None:
    """Show what is wrong, ticks, stages and dead letters, and refresh it. Keys: s sorts the stages, q quits.

    A failing database leaves the last frame on the screen, below a red line; it goes on by itself. Times are local.
    """
    service = job_service()
    if as_json:
        output(service.overview(), as_json=True, view=lambda found: ())
        return
    view = View(width=columns_of(sys.stdout), ascii_only=ascii_only or not _is_utf8())
    if once or not sys.stdout.isatty() or not _has_cursor():
        for line in frame(service.overview(), view):
            click.echo(ansi(line, colours=sys.stdout.isatty() and has_colours()))
        return
    feed = Feed(service.overview, interval)
    with Screen().entered() as screen:
        try:
            _run(feed, screen, view)
        except KeyboardInterrupt:
            pass
        finally:
            feed.stop()


def _has_cursor() -> bool:
    """Return whether the terminal can be drawn again."""
    return os.environ.get("TERM") not in (None, "", "dumb")


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "") == "utf8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the feed knows: the last overview, when it arrived, and the error since then with the time of the first.

    Times are those of `time.monotonic()`.
    """

    overview: Json | None = None
    arrived: float = 0
    error: Exception | None = None
    failed: float = 0


class Feed:
    """Reads the overview again and again, on a thread: keys work while a database or a network hangs."""

    def __init__(self, read: Callable[[], Json], interval: float) -> None:
        self._read = read
        self._interval = interval
        self._ended = threading.Event()
        self.answer = Answer()
        threading.Thread(target=self._run, name="top", daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.answer = Answer(self._read(), time.monotonic())
            except Exception as error:  # noqa: BLE001 - the main thread shows it
                failed = self.answer.failed or time.monotonic()
                self.answer = replace(self.answer, error=error, failed=failed)
            self._ended.wait(self._interval)


def _run(feed: Feed, screen: Screen, view: View) -> None:
    """Draw until q is pressed. Raise what no further try can change."""
    while True:
        answer = feed.answer
        if answer.error and _is_final(answer.error, first=answer.overview is None):
            raise answer.error
        size = shutil.get_terminal_size((80, 24))
        view = replace(view, width=size.columns, height=size.lines, elapsed=time.monotonic() - answer.arrived)
        lines = [*_lines(answer, view)]
        screen.draw([ansi(line, colours=has_colours()) for line in lines])
        for pressed in screen.key(_BEAT):
            if pressed in "qQ\x04":
                return
            if pressed in "sS":
                view = replace(view, sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)])


def _is_final(error: Exception, *, first: bool) -> bool:
    """Return whether no further try can help: a bug, or a refusal of the first call, such as that of a wrong token."""
    return not isinstance(error, GiftcardError) or (first and isinstance(error, Invalid | Forbidden | Refused))


def _lines(answer: Answer, view: View) -> list[Line]:
    """Return the lines of the whole screen, the keys in the last one."""
    foot: Line = ((view.plain(f"stages by {view.sort} · s: sort · q: quit"), "dim"),)
    if answer.overview is None:
        text = away(cleaned(answer.error)).sentence if answer.error else "Reading…"
        return [((view.plain(text), "red bold" if answer.error else "dim"),), (), foot]
    problem: Verdict | None = None
    if answer.error:
        problem = away(cleaned(answer.error), since_time=after(answer.overview["now"], answer.failed - answer.arrived))
    body = frame(answer.overview, replace(view, height=max(1, view.height - 1)), away=problem)
    return [*body, *[()] * (view.height - 1 - len(body)), foot][: view.height]
