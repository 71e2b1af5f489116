"""The addresses of the customer's page. A token that opens nothing gets one same answer, whatever is wrong with it."""

from typing import Any

from flask import Blueprint, Response, current_app, request

from lib.config.settings import Settings
from lib.errors import Failure, StoreError
from lib.giftcards.card_links import is_on, page_id_of
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.web import throttle
from lib.web.card_page import page
from lib.web.problems import Problem
from lib.web.services import services

blueprint = Blueprint("card_page", __name__, url_prefix="/o")

_RELOAD_SECONDS = 30
# A file's address changes with its content.
_FOREVER = "public, max-age=31536000, immutable"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}


@blueprint.get("/<any('card_page.css', 'card_page.svg'):name>")
def file(name: str) -> Response:
    """Return the style or the icon."""
    kind = "text/css" if name.endswith("css") else "image/svg+xml"
    content = page.file(name, _settings())
    return Response(content, content_type=f"{kind}; charset=utf-8", headers={"Cache-Control": _FOREVER})


@blueprint.get("/", defaults={"token": ""})
@blueprint.get("/<path:token>")
def show(token: str) -> Response:
    """Return the page of an order."""
    own = services(current_app)
    if not is_on(own.settings):
        return _answer("unknown", 404)
    page_id = page_id_of(token, own.settings)
    found = None if page_id is None else own.store.card_page(page_id)
    if found is None:
        counted = own.store.count_denied(throttle.bucket(), reason="signature")
        denied = throttle.denied(counted, Problem(404, "no such page"))
        response = _answer("unknown" if denied.status == 404 else "too_many", denied.status)
        if denied.retry_after is not None:
            response.headers["Retry-After"] = str(denied.retry_after)
        return response
    card = page.card_of(found, own.settings) if found["state"] == "ready" else None
    return _answer(found["state"], 200, locale=found["locale"], card=card)


@blueprint.errorhandler(Exception)
def unavailable(error: Exception) -> Response:
    """Return a page for an order that cannot be shown now: the database is away, the card cannot be read, or a bug.

    Unhandled, an exception would be logged with its path, which has the token.
    """
    known = isinstance(error, StoreError | Failure)
    text = clean(str(error), secrets=_settings().secrets()) if known else type(error).__name__
    more: dict[str, Any] = {"sqlstate": error.sqlstate} if isinstance(error, StoreError) else {}
    events.emit("request_failed", error=text, **more)
    response = _answer("unavailable", 503 if known else 500)
    response.headers["Retry-After"] = str(_RELOAD_SECONDS)
    return response


@blueprint.after_request
def guarded(response: Response) -> Response:
    """Keep the page out of caches, search engines and other pages, and its address out of what follows."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _answer(state: str, status: int, *, locale: str | None = None, card: page.Values | None = None) -> Response:
    is_still = "still" in request.args
    html = page.render(state, _settings(), locale=locale, card=card, is_still=is_still, seconds=_RELOAD_SECONDS)
    response = Response(html, status, content_type="text/html; charset=utf-8")
    if state in page.OPEN and not is_still:
        # A header, which the page can do without: WCAG forbids a <meta> that reloads and cannot be stopped.
        response.headers["Refresh"] = str(_RELOAD_SECONDS)
    return response


def _settings() -> Settings:
    return services(current_app).settings
