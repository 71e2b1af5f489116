"""Percent-decoding of paths, which WSGI requires of servers (PEP 3333) and Vercel's runtime leaves out."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def decoded(application: Application) -> Application:
    """Return a WSGI application that decodes the path of each request before it calls this one."""

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raw = environ["PATH_INFO"].encode("latin-1")  # WSGI has the path's bytes as Latin-1
        return application(environ | {"PATH_INFO": unquote_to_bytes(raw).decode("latin-1")}, start_response)

    return call
