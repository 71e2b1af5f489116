"""A program that serves the demo's database like Supabase."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from lib.errors import Unavailable

_VARIABLES = ("SUPABASE_URL", "SUPABASE_SECRET_KEY")
_STOP_TIMEOUT = 5.0


@contextmanager
def serve(command: Sequence[str], url: str) -> Iterator[Mapping[str, str]]:
    """Run the command with DATABASE_URL; yield the SUPABASE_URL and SUPABASE_SECRET_KEY that it prints.

    It also creates Supabase's roles, so it must start before the migrations. It stops with its standard input.

    Raises:
        Unavailable: it did not start.
    """
    environment = os.environ | {"DATABASE_URL": url}
    try:
        process = subprocess.Popen(  # noqa: S603 - given on the command line
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} did not start: {error.strerror}") from None
    try:
        yield _read(process.stdout, command[0])
    finally:
        process.terminate()
        process.communicate(timeout=_STOP_TIMEOUT)


def _read(stdout: IO[str] | None, program: str) -> dict[str, str]:
    variables: dict[str, str] = {}
    for line in stdout or ():
        name, _, value = line.strip().partition("=")
        if name in _VARIABLES:
            variables[name] = value
        if len(variables) == len(_VARIABLES):
            return variables
    raise Unavailable(f"{program} exited before it printed {' and '.join(_VARIABLES)}")
