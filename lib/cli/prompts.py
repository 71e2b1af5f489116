"""Confirmation before a change that affects many rows or cannot be undone, and progress of long work."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import click

from lib.cli.group import BadInput
from lib.cli.layout import columns_of, wrap
from lib.telemetry.events import LOG

# What follows a question in its last line, with room for the answer.
_ANSWERS = " [y/N]: yes"
# The width of the numbers beside a bar.
_COUNTS = 30


def confirm(question: str, *, yes: bool) -> None:
    """Ask on standard error (standard output is for the result), and return if the operator agrees.

    Raises:
        BadInput: the operator does not agree, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput("not a terminal: pass --yes to confirm; nothing was changed")
    try:
        *before, question = wrap(question, columns_of(sys.stderr) - len(_ANSWERS))
        for line in before:
            click.echo(line, err=True)
        agreed = click.confirm(question, default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise BadInput("nothing was changed")


@contextmanager
def progress_bar(label: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number done so far. The bar is drawn on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    room = columns_of(sys.stderr)
    with (
        click.progressbar(
            length=max(total, 1),
            label=label,
            width=min(36, max(4, room - len(label) - _COUNTS)),
            show_pos=True,
            show_eta=room >= 60,
            file=sys.stderr,
        ) as bar,
        _lines_above(bar),
    ):
        yield lambda done: bar.update(done - bar.pos)


@contextmanager
def _lines_above(bar: Any) -> Iterator[None]:
    """Print log lines and warnings above a bar: what is written to standard error clears it and draws it again."""
    own = sys.stderr
    above = _Above(own, bar)
    handlers = [
        handler
        for logger in (logging.getLogger(), LOG)
        for handler in logger.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is own
    ]
    for handler in handlers:
        handler.setStream(above)
    try:
        with redirect_stderr(above):
            yield
    finally:
        for handler in handlers:
            handler.setStream(own)


class _Above(io.TextIOBase):
    def __init__(self, stream: Any, bar: Any) -> None:
        self._stream, self._bar, self._begun = stream, bar, ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        lines, end, self._begun = (self._begun + text).rpartition("\n")
        if end:
            self._stream.write(f"\r\x1b[K{lines}\n")
            self._bar._last_line = None  # else it draws nothing, for nothing has changed
            self._bar.render_progress()
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
