"""The application of a cold start, which most often serves a tick: it has the routes of ticks and of health, and builds
the whole application when a request to any other address comes.

The whole one has these routes, too, so it does not matter which of the two serves them.
"""

from collections.abc import Iterable
from typing import Any

from flask import Flask

from lib.web import cron, health
from lib.web.areas import built_late
from lib.web.base import create_base
from lib.web.paths import Application
from lib.web.services import Services


def create_first_app(services: Services) -> Flask:
    """Return the Flask application that serves everything, and begins with little."""
    app = create_base(services, (cron.blueprint, health.blueprint))
    own = frozenset(rule.rule for rule in app.url_map.iter_rules() if not rule.arguments)
    serve_own = app.wsgi_app

    def create() -> Application:
        from lib.web.app import create_app

        return create_app(services).wsgi_app

    whole = built_late(create)

    def call(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return (serve_own if environ["PATH_INFO"] in own else whole)(environ, start_response)

    app.wsgi_app = call  # type: ignore[method-assign]
    return app
