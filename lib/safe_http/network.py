"""The connection beneath a call: to the very address that was checked, and never past its time."""

import queue
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore

from lib.safe_http.ip_policy import Network, may_be_called

# One answer of the resolver: family, type, protocol, canonical name, socket address.
_Found = list[tuple[Any, Any, int, str, Any]]


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@contextmanager
def _told(*, late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Failures of sockets in httpcore's words. ValueError: a certificate that is not for this host."""
    try:
        yield
    except TimeoutError as error:
        raise late from error
    except (OSError, ValueError) as error:
        raise failed(str(error)) from error


class Forbidden(Exception):
    """A name leads to an address that may not be called."""


class CheckedNetwork(httpcore.NetworkBackend):
    """Looks a name up once and connects to what it found, if all of it may be called. `until`: `time.monotonic()`."""

    def __init__(self, *, allowed: Sequence[Network], until: float) -> None:
        self._allowed = allowed
        self._until = until

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to one of the host's addresses, the first that answers.

        Raises:
            Forbidden: one of them may not be called. A name that leads inside, if only in part, leads nowhere.
        """
        with _told(late=httpcore.ConnectTimeout, failed=httpcore.ConnectError):
            found = _resolved(host, port, until=self._until)
            if not all(may_be_called(address[0], allowed=self._allowed) for *_, address in found):
                raise Forbidden
            return _Stream(_connected(found, until=self._until), until=self._until)


def _resolved(host: str, port: int, *, until: float) -> _Found:
    """On a thread of its own, for the resolver knows no timeout."""
    answer: queue.SimpleQueue[_Found | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            answer.put(error)

    threading.Thread(target=ask, name="resolver", daemon=True).start()
    try:
        found = answer.get(timeout=_left(until))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(found, Exception):
        raise found
    return found


def _connected(found: _Found, *, until: float) -> socket.socket:
    for place, (family, kind, protocol, _, address) in enumerate(found):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left(until) / (len(found) - place))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            connection.close()
            if place == len(found) - 1:
                raise
    raise OSError("the name has no address")


class _Stream(httpcore.NetworkStream):
    """A socket whose every step gets what is left of the time for all of them."""

    def __init__(self, connection: socket.socket, *, until: float) -> None:
        self._socket = connection
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _told(late=httpcore.ReadTimeout, failed=httpcore.ReadError):
            self._socket.settimeout(_left(self._until))
            return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        with _told(late=httpcore.WriteTimeout, failed=httpcore.WriteError):
            while rest:
                self._socket.settimeout(_left(self._until))
                rest = rest[self._socket.send(rest) :]

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _told(late=httpcore.ConnectTimeout, failed=httpcore.ConnectError):
            self._socket.settimeout(_left(self._until))
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), until=self._until)

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        return None
