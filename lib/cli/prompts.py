"""Confirmation before a change that affects many rows or cannot be undone, and progress of long work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from lib.cli.group import BadInput
from lib.cli.layout import columns_of, wrap

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
    with click.progressbar(
        length=max(total, 1),
        label=label,
        width=min(36, max(4, room - len(label) - _COUNTS)),
        show_pos=True,
        show_eta=room >= 60,
        file=sys.stderr,
    ) as bar:
        yield lambda done: bar.update(done - bar.pos)
