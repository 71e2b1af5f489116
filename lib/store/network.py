"""The network of the Supabase wire: all that a call waits for shares one deadline.

httpx limits each read only, so a server that sends a byte now and then would hold a call for ever.
"""

import threading
import time
from collections.abc import Iterable
from ssl import SSLContext
from typing import Any

import httpcore
import httpx

from lib.safe_http.unpacking import bounded
from lib.store.deadline import run_within


class Network(httpcore.NetworkBackend):
    """Connects within the deadline of the calling thread, which `begin` sets."""

    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()
        self._call = threading.local()

    def begin(self, seconds: float) -> None:
        """Set the deadline of this thread's call."""
        self._call.until = time.monotonic() + seconds

    def remaining(self, timeout: float | None, *, late: type[Exception]) -> float:
        """Return the seconds until the deadline, `timeout` at most. Raise `late` if there are none."""
        seconds: float = self._call.until - time.monotonic()
        if seconds <= 0:
            raise late("the call took too long")
        return seconds if timeout is None else min(timeout, seconds)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve the name and connect to one of its addresses."""
        seconds = self.remaining(None, late=httpcore.ConnectTimeout)
        try:
            stream = run_within(
                seconds,
                lambda: self._sockets.connect_tcp(host, port, timeout, local_address, socket_options),
                drop=httpcore.NetworkStream.close,
            )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from None
        return _Stream(self, stream)


class _Stream(httpcore.NetworkStream):
    def __init__(self, network: Network, stream: httpcore.NetworkStream) -> None:
        self._network = network
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._network.remaining(timeout, late=httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._network.remaining(timeout, late=httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = self._network.remaining(timeout, late=httpcore.ConnectTimeout)
        return _Stream(self._network, self._stream.start_tls(ssl_context, server_hostname, seconds))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Transport(httpx.HTTPTransport):
    """httpx' own, over this network: it has no parameter for it."""

    def __init__(self, network: Network, *, limits: httpx.Limits, ssl_context: SSLContext) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=network,
        )


def http_client(
    network: Network, *, limits: httpx.Limits, ssl_context: SSLContext | None = None, **options: Any
) -> httpx.Client:
    """Return an HTTP client over this network, which unpacks responses piece by piece.

    A proxy in the environment is used, without the common deadline.
    """
    ssl_context = ssl_context or httpx.create_ssl_context()
    transport = _Transport(network, limits=limits, ssl_context=ssl_context)
    return bounded(httpx.Client(limits=limits, verify=ssl_context, mounts={"all://": transport}, **options))
