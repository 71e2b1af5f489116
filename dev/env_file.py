"""The `.env` of `make dev`, which `flask jobs` in another terminal reads: see `lib.config.dev_env`."""

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dev import ROOT
from lib.config.dev_env import VARIABLE
from lib.errors import Refused

FILE = ROOT / ".env"
MARK = "# Written by make dev for flask jobs in another terminal. It is removed when make dev stops.\n"
_URL = re.compile(r"(?m)^# (http://\S+)$")


class Foreign(Exception):
    """A `.env` that `make dev` did not write, and does not touch."""


@contextmanager
def env_file(variables: Mapping[str, str], *, url: str, path: Path = FILE) -> Iterator[None]:
    """Write the file for its owner only, hold a lock on it, and remove it in the end.

    Raises:
        Foreign: another program's file is there; it is left as it is.
        Refused: another `make dev` is running here.
    """
    with _locked(path) as file:
        lines = (f"{name}={_quoted(value)}\n" for name, value in {VARIABLE: str(path), **variables}.items() if value)
        file.seek(0)
        file.truncate()
        file.write(f"{MARK}# {url}\n{''.join(lines)}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def check_no_other(path: Path = FILE) -> None:
    """Raise Refused if another `make dev` is running here, before anything is started for this one."""
    try:
        with _locked(path, create=False):
            pass
    except (Foreign, FileNotFoundError):
        pass


@contextmanager
def _locked(path: Path, *, create: bool = True) -> Iterator[IO[str]]:
    """Open the file if it is ours or new, and lock it."""
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Foreign(f"{path.name} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "r+", encoding="utf-8", errors="surrogateescape") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Foreign(f"{path.name} is no file")
        text = file.read()
        if text and not text.startswith(MARK):
            raise Foreign(f"{path.name} is a file of yours, which make dev leaves as it is")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = _URL.search(text)
            at = f" at {where[1]}" if where else ""
            raise Refused(
                f"make dev is running already{at}, in another terminal: use that one, or stop it", sqlstate="GC409"
            ) from None
        os.fchmod(descriptor, 0o600)
        yield file


def _quoted(value: str) -> str:
    """Return a value as python-dotenv and shells read it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
