"""Puts the web application together."""

from flask import Flask, Response

from lib.telemetry import sentry
from lib.web import (
    cron,
    documentation,
    giftcards,
    health,
    incoming,
    jobs,
    problems,
    pruning,
    reports,
    schedules,
    watch,
    webhooks,
)
from lib.web.paths import decoded
from lib.web.services import Giftcards

# A body longer than this is refused before it is read.
MAX_BODY_BYTES = 256 * 1024
_AREAS = (cron, documentation, giftcards, health, incoming, jobs, pruning, reports, schedules, watch, webhooks)


def create_app(parts: Giftcards) -> Flask:
    """The Flask application over these parts."""
    app = Flask("giftcards", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.extensions["giftcards"] = parts
    problems.register(app)
    app.after_request(_flushed)
    for area in _AREAS:
        app.register_blueprint(area.blueprint)
    if parts.settings.vercel_env in ("production", "preview"):
        app.wsgi_app = decoded(app.wsgi_app)  # type: ignore[method-assign, assignment]
    return app


def _flushed(response: Response) -> Response:
    """What Sentry was told leaves before the answer does: afterwards the platform may freeze the process."""
    sentry.flush()
    return response
