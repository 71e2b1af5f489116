"""Graceful shutdown on SIGTERM (Vercel allows 500 ms)."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Where the platform does not kill the process sooner, running ticks get this long to end.
_TIMEOUT_SECONDS = 30.0


class Shutdown:
    """Once `asked` is set, ticks claim nothing more, release jobs that have not started and finish running ones."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ticks = 0
        self._ticks_in_main = 0
        self._changed = threading.Condition()

    @contextmanager
    def tick(self) -> Iterator[threading.Event]:
        """Register a tick while it runs. Yields the event that stops it."""
        in_main = threading.current_thread() is threading.main_thread()
        with self._changed:
            self._ticks += 1
            self._ticks_in_main += in_main
        try:
            yield self.asked
        finally:
            with self._changed:
                self._ticks -= 1
                self._ticks_in_main -= in_main
                self._changed.notify_all()

    def ask(self, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Ask all ticks to end, and wait up to `timeout` seconds for them."""
        self.asked.set()
        with self._changed:
            self._changed.wait_for(lambda: self._ticks == 0, timeout=timeout)

    def on_sigterm(self) -> None:
        """Install the handler of SIGTERM. Does nothing outside the main thread, where Python forbids it."""
        if threading.current_thread() is not threading.main_thread():
            return
        previous: Any = signal.getsignal(signal.SIGTERM)

        def handle(number: int, frame: FrameType | None) -> None:
            if callable(previous):  # the platform's own handler decides when the process ends
                self.asked.set()
                previous(number, frame)
                return
            if self._ticks_in_main:  # a command's tick can end only after this handler returns; then the command exits
                self.asked.set()
                return
            self.ask()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, handle)
