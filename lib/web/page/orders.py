"""Orders: find one, read its story, see its mail, and send that again."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, current_app, request, url_for
from flask.typing import ResponseReturnValue

from lib.errors import Forbidden, Invalid, Refused
from lib.giftcards.schemas import OrderSearch, ResendRequest
from lib.giftcards.stories import Stories
from lib.web import auth
from lib.web.page import actions, render, session
from lib.web.request_data import refuse_nul
from lib.web.services import decisions, stories

blueprint = Blueprint("orders", __name__)

# A mail is shown in a frame without scripts, links or requests: its QR code is within it.
_MAIL_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox"
)
_DONE = {
    "created": "Job {} sends the mail again with the next tick.",
    "requeued": "Job {}, which had not sent the mail, is queued again.",
    "waiting": "Job {} waits or runs to send the mail already: nothing was added.",
}


@blueprint.get("/orders")
@session.view("jobs:read", all_tenants=False)
def search() -> ResponseReturnValue:
    """Return the form of the search."""
    return render.page("orders.html", wanted=None, found=None)


@blueprint.post("/orders")
@session.view("jobs:read", all_tenants=False)
def results() -> ResponseReturnValue:
    """Return what a search finds: a POST, so that no address is part of a URL."""
    wanted = actions.form(OrderSearch, reveal=request.form.get("reveal") == "true")
    if wanted.reveal:
        auth.require("admin")
    return _results(wanted, _stories().find(wanted))


def found(wanted: OrderSearch, *, empty: bool) -> Response | None:
    """Return the page of the orders that fit a text. `empty`: also if there are none; else None."""
    page = _stories().find(wanted)
    return _results(wanted, page) if page["orders"] or empty else None


def _results(wanted: OrderSearch, page: dict[str, Any]) -> Response:
    return render.page("orders.html", wanted=wanted, found=page, address=_address)


@blueprint.get("/orders/<tenant_id>/<path:correlation_id>", merge_slashes=False)
@session.view("jobs:read", all_tenants=False)
def show(tenant_id: str, correlation_id: str) -> ResponseReturnValue:
    """Return the story of an order, masked."""
    return _story(tenant_id, correlation_id, reveal=False)


@blueprint.post("/orders/<tenant_id>/<path:correlation_id>", merge_slashes=False)
@session.view("admin", all_tenants=False)
def reveal(tenant_id: str, correlation_id: str) -> ResponseReturnValue:
    """Return the story of an order in clear, which the audit records."""
    return _story(tenant_id, correlation_id, reveal=True)


def _story(tenant_id: str, correlation_id: str, *, reveal: bool) -> ResponseReturnValue:
    refuse_nul(tenant_id, correlation_id)
    story = _stories().story(tenant_id, correlation_id, reveal=reveal)
    ids = {"tenant_id": tenant_id, "correlation_id": correlation_id}
    mail = url_for("orders.mail", tenant_id=tenant_id, correlation_id=correlation_id)
    shown = {"reveal": "true"} if reveal else {}
    return render.page(
        "order.html",
        story=story,
        ids=ids,
        reveal=reveal,
        address=_address(tenant_id, correlation_id),
        html_address=f"{mail}?{urlencode(shown)}".rstrip("?"),
        text_address=f"{mail}?{urlencode(shown | {'part': 'text'})}",
    )


@blueprint.get("/mails/<tenant_id>/<path:correlation_id>", merge_slashes=False)
@session.view("jobs:read", all_tenants=False)
def mail(tenant_id: str, correlation_id: str) -> ResponseReturnValue:
    """Return the mail of an order for a frame: as HTML, or its text with subject and recipient (`part=text`)."""
    refuse_nul(tenant_id, correlation_id)
    in_clear = request.args.get("reveal") == "true"
    if in_clear:
        auth.require("admin")
    try:
        shown = _stories().mail(tenant_id, correlation_id, reveal=in_clear)
    except (Invalid, Refused, Forbidden) as error:
        return _framed(f"{error}\n", "text/plain")
    if request.args.get("part") == "text":
        return _framed(f"Subject: {shown['subject']}\nTo: {shown['to']}\n\n{shown['text']}", "text/plain")
    return _framed(shown["html"], "text/html")


@blueprint.post("/resend")
@session.view("admin", all_tenants=False)
def resend() -> ResponseReturnValue:
    """Have the mail of an order sent again."""
    tenant_id, correlation_id = (request.form.get(name, "") for name in ("tenant_id", "correlation_id"))
    refuse_nul(tenant_id, correlation_id)
    return actions.act(
        lambda: decisions(current_app, caller=auth.caller()).resend(
            tenant_id, correlation_id, actions.form(ResendRequest)
        ),
        done=lambda done: _DONE[done["done"]].format(done["job_id"]) + _changed(done["changed"]),
        to=actions.back("/orders"),
    )


def _changed(fields: list[str]) -> str:
    return " The order has the new address." if fields else ""


def _stories() -> Stories:
    return stories(current_app, caller=auth.caller())


def _address(tenant_id: str, correlation_id: str) -> str:
    return url_for("orders.show", tenant_id=tenant_id, correlation_id=correlation_id)


def _framed(content: str, kind: str) -> Response:
    response = Response(content, content_type=f"{kind}; charset=utf-8")
    response.headers["Content-Security-Policy"] = _MAIL_POLICY
    return response
