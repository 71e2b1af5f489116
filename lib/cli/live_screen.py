"""A terminal that is drawn again and again: its alternate screen, its keys without Enter, and its state afterwards."""

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

try:
    import termios
    import tty
except ImportError:  # Windows: no keys; Ctrl-C ends it
    termios = tty = None  # type: ignore[assignment]

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
# Signals that end the process: the terminal is restored first.
_ENDING = ("SIGTERM", "SIGHUP")


class Screen:
    """The alternate screen of standard output."""

    def __init__(self) -> None:
        self._keyboard: list[Any] | None = None

    @contextmanager
    def entered(self) -> Iterator["Screen"]:
        """Draw here within the block. Whatever ends it, the terminal is as it was afterwards."""
        handlers = self._handle_signals()
        try:
            self._enter()
            yield self
        finally:
            self._leave()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def draw(self, lines: Sequence[str]) -> None:
        """Draw these lines from the top, and nothing below."""
        rows = "\x1b[K\r\n".join(lines)
        sys.stdout.write(f"\x1b[H{rows}\x1b[K\x1b[J")
        sys.stdout.flush()

    def key(self, seconds: float) -> str:
        """Return the key that is pressed within these seconds, or nothing. `q` if the keyboard has gone."""
        if self._keyboard is None:
            threading.Event().wait(seconds)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return ""
        pressed = os.read(sys.stdin.fileno(), 32)
        return pressed.decode("utf-8", "replace") if pressed else "q"

    def _enter(self) -> None:
        if termios is not None and sys.stdin.isatty():
            self._keyboard = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _leave(self) -> None:
        with suppress(OSError, ValueError):  # the terminal has gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        if self._keyboard is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._keyboard)
        self._keyboard = None

    def _handle_signals(self) -> dict[int, Any]:
        """Handle signals until the end. Return what handled them before: none outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        handlers: dict[int, Any] = {getattr(signal, name): _end for name in _ENDING if hasattr(signal, name)}
        if hasattr(signal, "SIGTSTP"):
            handlers[signal.SIGTSTP] = self._suspend
        return {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def _suspend(self, *_: Any) -> None:
        """Give the terminal back while the process is stopped by Ctrl-Z."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()


def _end(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)
