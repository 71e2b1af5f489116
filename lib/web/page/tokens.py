"""Tokens: who may use the API and this page, until when, and when they last did; create and revoke."""

from typing import Any, get_args

from flask import Blueprint, current_app, request, url_for
from flask.typing import ResponseReturnValue

from lib.tokens.schemas import Scope, TokenPage, TokenRequest
from lib.tokens.service import Tokens
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.services import services

blueprint = Blueprint("tokens", __name__, url_prefix="/tokens")

_DAY = 86_400
# How long a token may live, in seconds. The first is proposed.
_LIVES = (
    ("90 days", 90 * _DAY),
    ("a day", _DAY),
    ("30 days", 30 * _DAY),
    ("a year", 365 * _DAY),
    ("for good", None),
)


def _tokens() -> Tokens:
    return Tokens(services(current_app).store, caller=auth.caller())


@blueprint.get("")
@session.view("admin")
def index() -> ResponseReturnValue:
    """Return a page of tokens, newest first. Those of the environment are not listed."""
    (page,) = filters.strictly(TokenPage)
    return render.page("tokens.html", scopes=get_args(Scope), lives=_LIVES, **_tokens().find(page))


@blueprint.post("")
@session.view("admin")
def create() -> ResponseReturnValue:
    """Create a token. The answer alone has it."""

    def verb() -> Any:
        given: dict[str, Any] = {"scopes": request.form.getlist("scopes")}
        if request.form.get("expires_seconds"):
            given["expires_seconds"] = actions.number("expires_seconds")
        return _tokens().create(actions.form(TokenRequest, **given))

    return actions.attempt(
        verb, lambda created: render.page("token.html", token=created), otherwise=url_for("tokens.index")
    )


@blueprint.post("/revoke")
@session.view("admin")
def revoke() -> ResponseReturnValue:
    """Revoke a token for good."""
    name = request.form.get("name", "").replace("\x00", "")
    return actions.act(
        lambda: _tokens().revoke(name),
        done="Revoked: its next request is rejected, and its sessions on this page have ended.",
        to=url_for("tokens.index"),
    )
