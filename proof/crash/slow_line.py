"""A bad line between the workers and Postgres: it drips, delays, and cuts in the middle of requests and answers."""

import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

# Shares of the chunks that a bad line carries.
_CUT, _DRIP, _DELAY = 0.01, 0.05, 0.05
_LONGEST_DELAY_SECONDS = 0.4
_DRIP_SECONDS = 0.01
_MOST_DRIPS = 20
_CHUNK = 65_536


class SlowLine:
    """TCP on this machine, to a server's socket. `bad`: whether it does its worst. `did`: how often it did what.

    `silent`: while it is set, nothing is carried, and nothing is refused.
    """

    def __init__(self, target: Path, rng: Random) -> None:
        self.bad, self.silent = threading.Event(), threading.Event()
        self.did: Counter[str] = Counter()
        self._target, self._rng, self._lock = target, rng, threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self.bad.clear()
        self.silent.clear()
        _close(self._listener)

    def _serve(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            with suppress(OSError):
                server.connect(str(self._target))
            for one, other, what in ((client, server, "request"), (server, client, "answer")):
                threading.Thread(target=self._carry, args=(one, other, what), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, what: str) -> None:
        with suppress(OSError):
            while data := one.recv(_CHUNK):
                while self.silent.is_set():
                    time.sleep(0.05)
                if not self._send(other, data, what):
                    break
        _close(one)
        _close(other)

    def _send(self, other: socket.socket, data: bytes, what: str) -> bool:
        """Send in the way that falls to it; return whether the line holds."""
        with self._lock:
            fate, part, delay = self._rng.random(), self._rng.random(), self._rng.random()
        if not self.bad.is_set() or fate > _CUT + _DRIP + _DELAY:
            other.sendall(data)
        elif fate < _CUT:
            self.did[f"cut in a {what}" if what == "request" else f"cut in an {what}"] += 1
            other.sendall(data[: int(len(data) * part)])
            return False
        elif fate < _CUT + _DRIP:
            self.did[f"{what} in drips"] += 1
            size = max(1, len(data) // _MOST_DRIPS)
            for start in range(0, len(data), size):
                other.sendall(data[start : start + size])
                time.sleep(_DRIP_SECONDS)
        else:
            self.did[f"{what} late"] += 1
            time.sleep(delay * _LONGEST_DELAY_SECONDS)
            other.sendall(data)
        return True


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
