"""Leaving in good order: SIGTERM, and then half a second on Vercel."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Where nobody kills us sooner, ticks get this long (seconds) to end what they have begun.
_PATIENCE_SECONDS = 30.0


class Shutdown:
    """Once `asked` is set, ticks claim no more, release what has not begun and let what runs end."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ticks = 0
        self._ticks_in_main = 0
        self._changed = threading.Condition()

    @contextmanager
    def tick(self) -> Iterator[threading.Event]:
        """Counts a tick while it runs; gives it the event to heed."""
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

    def ask(self, *, patience: float = _PATIENCE_SECONDS) -> None:
        """Asks the ticks to end, and waits until they have, `patience` seconds at most."""
        self.asked.set()
        with self._changed:
            self._changed.wait_for(lambda: self._ticks == 0, timeout=patience)

    def on_sigterm(self) -> None:
        """Heeds SIGTERM from now on; does nothing outside the main thread, which alone may."""
        if threading.current_thread() is not threading.main_thread():
            return
        before: Any = signal.getsignal(signal.SIGTERM)

        def heed(number: int, frame: FrameType | None) -> None:
            if callable(before):  # the platform's own way of leaving: it decides when
                self.asked.set()
                before(number, frame)
                return
            if self._ticks_in_main:  # a command's: it can end only once this handler is out of its way, and then leaves
                self.asked.set()
                return
            self.ask()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, heed)
