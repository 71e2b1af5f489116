"""Questions before what touches many or cannot be undone, and the progress of what takes long."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from lib.cli.group import BadInput


def sure(question: str, *, yes: bool) -> None:
    """Lets the command go on if a person says so. Asked on standard error: standard output is for the answer.

    Raises:
        BadInput: no, or nobody there to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput(f"nobody is there to answer “{question}”: nothing was changed; --yes answers it beforehand")
    try:
        agreed = click.confirm(question, default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise BadInput("nothing was changed")


@contextmanager
def progress(label: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """Gives the function that is told how many are done; shows a bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=max(total, 1), label=label, show_pos=True, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)
