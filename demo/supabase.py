"""A program that serves a database as Supabase does, for as long as the demo plays on it."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from lib.errors import Unavailable

_SAYS = ("SUPABASE_URL", "SUPABASE_SECRET_KEY")
_GOODBYE_SECONDS = 5.0


@contextmanager
def served(command: Sequence[str], url: str) -> Iterator[Mapping[str, str]]:
    """Runs the command with DATABASE_URL; what it says of itself: SUPABASE_URL and SUPABASE_SECRET_KEY.

    It makes Supabase's roles too, so it has to be there before the migrations. It ends when its standard input does.

    Raises:
        Unavailable: it did not start.
    """
    environment = os.environ | {"DATABASE_URL": url}
    try:
        process = subprocess.Popen(  # noqa: S603 - what make demo was told
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} did not start: {error.strerror}") from None
    try:
        yield _read(process.stdout, command[0])
    finally:
        process.terminate()
        process.communicate(timeout=_GOODBYE_SECONDS)


def _read(stdout: IO[str] | None, program: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for line in stdout or ():
        name, _, value = line.strip().partition("=")
        if name in _SAYS:
            said[name] = value
        if len(said) == len(_SAYS):
            return said
    raise Unavailable(f"{program} ended before it said {' and '.join(_SAYS)}")
