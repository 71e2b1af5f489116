"""The two areas of addresses: the API is below /api/, the page has all others."""

from collections.abc import Iterable
from typing import Any

from lib.web.first import once
from lib.web.paths import Application
from lib.web.services import Services


def with_page(api: Application, services: Services) -> Application:
    """Return a WSGI application of both areas. The page is built by the first request to it: ticks never need it."""

    def create() -> Application:
        from lib.web.page.app import create_page

        return create_page(services).wsgi_app

    page = once(create)

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_of_api = f"{environ['PATH_INFO']}/".startswith("/api/")
        return (api if is_of_api else page())(environ, start_response)

    return call
