"""Paths as WSGI has them (PEP 3333): decoded. Vercel's runtime hands them over as they were asked for."""

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def decoded(application: Application) -> Application:
    """The application, under a server that leaves `%3A` in paths. WSGI has their bytes as Latin-1."""

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raw = environ["PATH_INFO"].encode("latin-1")
        return application(environ | {"PATH_INFO": unquote_to_bytes(raw).decode("latin-1")}, start_response)

    return call
