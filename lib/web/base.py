"""What every Flask application of the API has: the services, errors as problems, limits, headers."""

from collections.abc import Iterable

from flask import Blueprint, Flask, Response, request

from lib.telemetry import sentry
from lib.web import problems
from lib.web.services import Services

# A longer body is refused before it is read.
MAX_BODY_BYTES = 256 * 1024
# The reference of the API, which anyone may store.
_PUBLIC = "docs"


def create_base(services: Services, blueprints: Iterable[Blueprint]) -> Flask:
    """Return a Flask application over these services, with the routes of these blueprints."""
    app = Flask("giftcards", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.extensions["services"] = services
    # What a page counts in bytes is UTF-8: escapes would make it up to three times as long.
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    problems.register(app)
    app.url_map.merge_slashes = False  # a redirect would lose the token or the body
    app.after_request(_guarded)
    app.after_request(_flushed)
    for blueprint in blueprints:
        app.register_blueprint(blueprint)
    return app


def _guarded(response: Response) -> Response:
    """Forbid to store a response or to guess its type."""
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.blueprint != _PUBLIC:
        response.headers["Cache-Control"] = "no-store"
    return response


def _flushed(response: Response) -> Response:
    """Send what is queued for Sentry before the response: afterwards the platform may freeze the process."""
    sentry.flush()
    return response
