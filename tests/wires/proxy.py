"""A place between a wire and its server where connections break: TCP, byte for byte, until told otherwise."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# So much of an answer is let through before the line is cut.
_SCRAP = 7


class Proxy:
    """`target`: (host, port), or a socket in a folder."""

    def __init__(self, target: tuple[str, int] | Path) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._cut = 0
        self._stalled = threading.Event()
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        """How many answers were cut."""

    @property
    def lines(self) -> int:
        """How many connections are open."""
        return len(self._open) // 2

    def cut(self, answers: int) -> None:
        """The next answers break off in the middle, and their connections with them."""
        self._cut = answers

    def stall(self) -> None:
        """From now on no answer comes through."""
        self._stalled.set()

    def resume(self) -> None:
        """Answers come through again; those of before are lost."""
        self._stalled.clear()

    def hang_up(self) -> None:
        """All connections that are open end, and new ones are refused."""
        _close(self._listener)
        self.drop()

    def drop(self) -> None:
        """All connections that are open end."""
        for end in list(self._open):
            _close(end)

    def serve(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            server = self._connect()
            self._open |= {client, server}
            for one, other, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._carry, args=(one, other, answers), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, Path):
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            return server
        return socket.create_connection(self._target)

    def _carry(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                if answers and self._stalled.is_set():
                    continue
                if answers and self._cut:
                    self._cut -= 1
                    self.cuts += 1
                    other.sendall(data[:_SCRAP])
                    break
                other.sendall(data)
        _close(one)
        _close(other)
        self._open -= {one, other}


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def proxy(target: tuple[str, int] | Path) -> Iterator[Proxy]:
    """A proxy that is gone in the end."""
    made = Proxy(target)
    threading.Thread(target=made.serve, daemon=True).start()
    try:
        yield made
    finally:
        made.hang_up()
