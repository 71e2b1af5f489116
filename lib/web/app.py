"""Build the Flask application: routes, error handlers, limits."""

from flask import Flask, Response, request

from lib.telemetry import sentry
from lib.web import (
    archive,
    audit,
    batches,
    bulk,
    circuits,
    cron,
    decisions,
    docs,
    health,
    inbound_webhooks,
    jobs,
    limits,
    metrics,
    orders,
    problems,
    reports,
    schedules,
    stages,
    tokens,
    webhooks,
)
from lib.web.areas import with_page
from lib.web.paths import decoded
from lib.web.services import Services

# A longer body is refused before it is read.
MAX_BODY_BYTES = 256 * 1024
_RESOURCES = (
    *(archive, audit, batches, bulk, circuits, cron, decisions, docs, health, inbound_webhooks, jobs, limits),
    *(metrics, orders, reports, schedules, stages, tokens, webhooks),
)


def create_app(services: Services) -> Flask:
    """Return the Flask application over these services."""
    app = Flask("giftcards", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.extensions["services"] = services
    # What a page counts in bytes is UTF-8: escapes would make it up to three times as long.
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    problems.register(app)
    app.url_map.merge_slashes = False  # a redirect would lose the token or the body
    app.after_request(_guarded)
    app.after_request(_flushed)
    for resource in _RESOURCES:
        app.register_blueprint(resource.blueprint)
    app.wsgi_app = with_page(app.wsgi_app, services)  # type: ignore[method-assign, assignment]
    if services.settings.vercel_env in ("production", "preview"):
        app.wsgi_app = decoded(app.wsgi_app)  # type: ignore[method-assign, assignment]
    return app


def _guarded(response: Response) -> Response:
    """Forbid to store a response or to guess its type; the reference of the API is public and may be stored."""
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.blueprint != docs.blueprint.name:
        response.headers["Cache-Control"] = "no-store"
    return response


def _flushed(response: Response) -> Response:
    """Send what is queued for Sentry before the response: afterwards the platform may freeze the process."""
    sentry.flush()
    return response
