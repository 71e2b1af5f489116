"""Tokens: list, create and revoke."""

from typing import Any

from flask import Blueprint, current_app

from lib.tokens.schemas import TokenPage, TokenRequest
from lib.tokens.service import Tokens
from lib.web import auth
from lib.web.request_data import read_body, read_query, refuse_nul
from lib.web.services import services

blueprint = Blueprint("tokens", __name__, url_prefix="/api/v1/tokens")


def _tokens() -> Tokens:
    return Tokens(services(current_app).store, caller=auth.caller())


@blueprint.get("")
@auth.scope("admin", all_tenants=True)
def list_tokens() -> dict[str, Any]:
    """Return a page of tokens, newest first.

    The tokens of the environment are not listed.
    """
    (page,) = read_query(TokenPage)
    return _tokens().find(page)


@blueprint.post("")
@auth.scope("admin", all_tenants=True)
def create() -> tuple[dict[str, Any], int]:
    """Create a token.

    Only this response has it. If the response is lost, revoke the token and create another one.
    """
    return _tokens().create(read_body(TokenRequest)), 201


@blueprint.delete("/<name>")
@auth.scope("admin", all_tenants=True)
def revoke(name: str) -> dict[str, Any]:
    """Revoke a token for good.

    Its next request is rejected. A token that is revoked already stays as it is.
    """
    refuse_nul(name, title="a token's name cannot hold a NUL character")
    return _tokens().revoke(name)
