"""The description of the API, for programs and for people. It is public: it holds no settings."""

from typing import Any

from flask import Blueprint, Response, current_app

blueprint = Blueprint("docs", __name__)

# The page has its own style and loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@blueprint.get("/api/openapi.json")
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this API."""
    from lib.web.openapi.document import described

    return described(current_app._get_current_object())  # type: ignore[attr-defined]


@blueprint.get("/api/docs")
def page() -> Response:
    """Return the API reference as an HTML page."""
    from lib.web.openapi.document import described
    from lib.web.openapi.page import as_html

    html = as_html(described(current_app._get_current_object()))  # type: ignore[attr-defined]
    return Response(html, content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY})
