"""`flask jobs …` as a process in a window of its own: a real pseudo-terminal with a size, keys and a screen."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_STYLE = re.compile("\x1b\\[[0-9;]*m")


class Window:
    """A process in a terminal; `output` is all that it has written so far."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master = master
        self.process = process
        self.output = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def screen(self) -> list[str]:
        """The lines of the last drawing that is complete."""
        drawings = [part for part in self.output.split("\x1b[H")[1:] if "\x1b[J" in part]
        text = _STYLE.sub("", drawings[-1].partition("\x1b[J")[0]) if drawings else ""
        return text.replace("\x1b[K", "").replace("\r", "").split("\n")

    def until(self, holds: Callable[[str], bool], *, seconds: float = 30) -> list[str]:
        """Wait until this holds for the screen's text; the lines of that screen."""
        ends = time.monotonic() + seconds
        while not holds("\n".join(self.screen())):
            assert time.monotonic() < ends, f"{self.output[-3000:]!r}"
            assert self.process.poll() is None, self.output[-3000:]
            self._read()
        return self.screen()

    def end(self, *, seconds: float = 30) -> int:
        """Wait for the process to end by itself; its exit code."""
        ends = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < ends, f"{self.output[-3000:]!r}"
            self._read()
        self._read()
        return self.process.returncode

    def _read(self) -> None:
        os.set_blocking(self.master, False)
        time.sleep(0.05)
        try:
            while part := os.read(self.master, 65536):
                self.output += part.decode("utf-8", "replace")
        except OSError:  # nothing yet; or the last who had it open has gone
            pass


def _lead() -> None:
    """Take the terminal, and Ctrl-C, which a shell in the background ignores for all that it starts."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def a_window(*args: str, columns: int, rows: int, **environ: str) -> Iterator[Window]:
    """`flask jobs` with these words in a window. It is killed in the end, unless it has ended."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(slave)
    variables = {"GIFTCARD_ENV": "test", "PATH": "", "PYTHONPATH": str(ROOT), "TERM": "xterm", "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, "-m", "flask", "jobs", *args],
        env=variables | environ,
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_lead,
    )
    try:
        yield Window(master, process)
        if process.poll() is not None:
            assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)
