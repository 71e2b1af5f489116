"""The areas of addresses: the API is below /api/, the page has all others. What a tick does not need is built late."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from lib.web.paths import Application
from lib.web.services import Services


def with_page(api: Application, services: Services) -> Application:
    """Return a WSGI application of both areas. The page is built by the first request to it: ticks never need it."""

    def create() -> Application:
        from lib.web.page.app import create_page

        return create_page(services).wsgi_app

    page = built_late(create)

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_of_api = f"{environ['PATH_INFO']}/".startswith("/api/")
        return (api if is_of_api else page)(environ, start_response)

    return call


def built_late(create: Callable[[], Application]) -> Application:
    """Return a WSGI application that `create` builds when the first request comes, once; others wait for it."""
    building = threading.Lock()
    built: list[Application] = []

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not built:
            with building:
                if not built:
                    built.append(create())
        return built[0](environ, start_response)

    return call
