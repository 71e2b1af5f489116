"""The display: live on a terminal, plain lines through a pipe."""

import re
import sys
import time
from types import TracebackType
from typing import IO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.progress import Line

FLOW = ("customer_ingest", "personal_code", "payment", "issue_card", "email")
_STAGES = (*FLOW, "webhook")
_COLOURS = {"completed": "green", "running": "cyan", "queued": "yellow", "error": "red", "cancelled": "red"}
_MOST_WIDTH = 40
# What the names of the stages, the counts and the gaps take beside a bar.
_BESIDE = 58
_PIPE_WIDTH, _VERBOSE_PIPE_WIDTH = 80, 120
_PLAIN_EVERY = 5.0  # seconds between two lines of progress through a pipe

Counts = dict[str, dict[str, int]]


class _Trimmed:
    """Standard output without the trailing blanks of tables."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        sys.stdout.flush()


def new_console(*, verbose: bool) -> Console:
    """Return a console: coloured on a terminal, with a fixed width through a pipe."""
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        return console
    width = _VERBOSE_PIPE_WIDTH if verbose else _PIPE_WIDTH
    return Console(highlight=False, markup=False, width=width, file=cast("IO[str]", _Trimmed()))


class Display:
    """Shows the state of all jobs. `verbose`: a line per event stays, otherwise the last one is visible meanwhile.

    `total` is the number of orders.
    """

    def __init__(self, console: Console, *, total: int, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._last_event = ""
        self._total = max(1, total)
        self._began = time.monotonic()
        self._last_line = 0.0
        self._live = Live(console=console, refresh_per_second=10, transient=True) if console.is_terminal else None

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def __enter__(self) -> "Display":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def print(self, lines: list[Line]) -> None:
        """Show the lines of new events."""
        if not self._verbose:
            self._last_event = lines[-1][1] if lines else self._last_event
            return
        for style, text in lines:
            if not self._live:
                self._console.print(f"{self.seconds:5.1f} s  {text}", soft_wrap=True)
                continue
            line = Table.grid(padding=(0, 2))  # wraps below the start of the text
            line.add_row(Text(f"{self.seconds:5.1f} s", style="dim"), Text(text, style=style))
            self._console.print(line)

    def update(self, counts: Counts, *, circuits: dict[str, str]) -> None:
        """Show the current state."""
        if self._live:
            self._live.update(self._render(counts, circuits))
        elif self.seconds - self._last_line >= _PLAIN_EVERY:
            self._last_line = self.seconds
            done = {stage: counts.get(stage, {}).get("completed", 0) for stage in _STAGES}
            all_stages = "  ".join(f"{stage} {number}" for stage, number in done.items())
            few = f"{done['issue_card']} cards, {done['email']} mails of {self._total} orders"
            text = f"completed: {all_stages}" if self._verbose else few
            self._console.print(f"{self.seconds:5.1f} s  {text}{_circuits(circuits)}", soft_wrap=True)

    def _render(self, counts: Counts, circuits: dict[str, str]) -> Group:
        # Each status has a column of its own: a line that wraps would move all others up and down.
        shown = [status for status in _COLOURS if status != "cancelled" or any(status in by for by in counts.values())]
        table = Table(box=None, padding=(0, 1), header_style="dim")
        table.add_column()
        table.add_column(no_wrap=True)
        for status in shown:
            table.add_column(status, justify="right", style="dim", no_wrap=True)
        for stage in _STAGES:
            by = counts.get(stage, {})
            table.add_row(stage, self._bar(by), *(str(by.get(status) or "·") for status in shown))
        foot = f"{self.seconds:5.1f} s{_circuits(circuits) or '   all circuits closed'}"
        event = Text(self._last_event, style="italic", no_wrap=True, overflow="ellipsis")
        return Group(Text(), table, Text(foot, style="red" if circuits else "dim"), event)

    def _bar(self, by: dict[str, int]) -> Text:
        bar = Text()
        width = max(1, min(_MOST_WIDTH, self._console.width - _BESIDE))
        drawn = 0
        jobs = 0
        for status, colour in _COLOURS.items():
            jobs += by.get(status, 0)
            upto = min(width, -(-jobs * width // self._total))  # rounded up: a single job is visible
            bar.append("█" * (upto - drawn), style=colour)
            drawn = upto
        return bar.append("░" * (width - drawn), style="dim")


def _circuits(circuits: dict[str, str]) -> str:
    return "".join(f"   circuit of {name}: {state.replace('_', '-')}" for name, state in circuits.items())
