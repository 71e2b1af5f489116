"""Build the whole Flask application: all routes of the API, and the page."""

from flask import Flask

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
    reports,
    schedules,
    stages,
    tokens,
    webhooks,
)
from lib.web.areas import with_page
from lib.web.base import create_base
from lib.web.paths import decoded
from lib.web.services import Services

_RESOURCES = (
    *(archive, audit, batches, bulk, circuits, cron, decisions, docs, health, inbound_webhooks, jobs, limits),
    *(metrics, orders, reports, schedules, stages, tokens, webhooks),
)


def create_app(services: Services) -> Flask:
    """Return the Flask application over these services."""
    app = create_base(services, [resource.blueprint for resource in _RESOURCES])
    app.wsgi_app = with_page(app.wsgi_app, services)  # type: ignore[method-assign, assignment]
    if services.settings.vercel_env in ("production", "preview"):
        app.wsgi_app = decoded(app.wsgi_app)  # type: ignore[method-assign, assignment]
    return app
