"""Build the page's Flask application: routes, headers, and each problem as a page."""

from flask import Flask, Response, request

from lib.telemetry import sentry
from lib.web import problems
from lib.web.card_page import routes as card_page
from lib.web.page import (
    audit,
    batches,
    bulk,
    doctor,
    error_kinds,
    errors,
    job,
    jobs,
    limits,
    orders,
    overview,
    payload,
    reconciliation,
    render,
    reports,
    schedules,
    search,
    session,
    signing,
    stages,
    tokens,
    webhooks,
)
from lib.web.services import Services

# A form has at most a payload and 1,000 job numbers.
_MAX_BODY_BYTES = 256 * 1024
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_AREAS = (
    *(audit, batches, bulk, card_page, doctor, error_kinds, job, jobs, limits, orders, overview, payload),
    *(reconciliation, reports, schedules, search, signing, stages, tokens, webhooks),
)


def create_page(services: Services) -> Flask:
    """Return the page's application over these services."""
    app = Flask("lib.web.page.app", static_folder=None, template_folder="templates")
    app.config.update(MAX_CONTENT_LENGTH=_MAX_BODY_BYTES, MAX_FORM_MEMORY_SIZE=_MAX_BODY_BYTES)
    app.extensions["services"] = services
    session.configure(app, services.settings)
    render.configure(app)
    problems.register(app)
    # The last one runs first: pages of problems have the headers, too.
    app.after_request(_guarded)
    app.after_request(errors.as_page)
    for area in _AREAS:
        app.register_blueprint(area.blueprint)
    app.add_url_rule("/static/<path:name>", "static_file", render.static)
    return app


def _guarded(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static_file":
        response.headers.add("Vary", "Cookie")
    sentry.flush()
    return response
