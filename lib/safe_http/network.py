"""Connections to the address that was checked, within a deadline."""

import queue
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore

from lib.safe_http.ip_policy import Network, is_allowed

# The resolver's result: (family, type, protocol, canonical name, socket address) of each address.
_Addresses = list[tuple[Any, Any, int, str, Any]]


def _remaining(until: float) -> float:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


@contextmanager
def _httpcore_errors(*, late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Raise socket failures as httpcore's. A ValueError is a certificate of another host."""
    try:
        yield
    except TimeoutError as error:
        raise late from error
    except (OSError, ValueError) as error:
        raise failed(str(error)) from error


class ForbiddenAddress(Exception):
    """The host has an address that may not be called."""


class CheckedNetwork(httpcore.NetworkBackend):
    """Resolves a name once and connects, if all its addresses are allowed. `until` is a `time.monotonic()` value."""

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
        """Connect to the first of the host's addresses that responds.

        Raises:
            ForbiddenAddress: at least one of its addresses may not be called, so none is.
        """
        with _httpcore_errors(late=httpcore.ConnectTimeout, failed=httpcore.ConnectError):
            addresses = _resolve(host, port, until=self._until)
            if not all(is_allowed(address[0], allowed=self._allowed) for *_, address in addresses):
                raise ForbiddenAddress
            return _Stream(_connect(addresses, until=self._until), until=self._until)


def _resolve(host: str, port: int, *, until: float) -> _Addresses:
    """Resolve a name on a thread of its own, because the resolver has no timeout."""
    results: queue.SimpleQueue[_Addresses | Exception] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            results.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            results.put(error)

    threading.Thread(target=resolve, name="resolver", daemon=True).start()
    try:
        result = results.get(timeout=_remaining(until))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def _connect(addresses: _Addresses, *, until: float) -> socket.socket:
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_remaining(until) / (len(addresses) - index))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            connection.close()
            if index == len(addresses) - 1:
                raise
    raise OSError("the host has no address")


class _Stream(httpcore.NetworkStream):
    """A socket whose operations share one deadline."""

    def __init__(self, connection: socket.socket, *, until: float) -> None:
        self._socket = connection
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _httpcore_errors(late=httpcore.ReadTimeout, failed=httpcore.ReadError):
            self._socket.settimeout(_remaining(self._until))
            return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        with _httpcore_errors(late=httpcore.WriteTimeout, failed=httpcore.WriteError):
            while rest:
                self._socket.settimeout(_remaining(self._until))
                rest = rest[self._socket.send(rest) :]

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _httpcore_errors(late=httpcore.ConnectTimeout, failed=httpcore.ConnectError):
            self._socket.settimeout(_remaining(self._until))
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), until=self._until)

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        return None
