"""Tokens of the API."""

from typing import Literal

from lib.tokens.schemas import Scope
from lib.web.openapi.responses.base import Response, Time


class Token(Response):
    """A token, without the token itself: only its hash is stored."""

    id: int
    name: str
    prefix: str
    """The first characters of the token, to recognize it in a leak."""
    tenant_id: str | None
    """The only tenant that it sees and changes. Null: all."""
    scopes: list[Scope]
    state: Literal["active", "expired", "revoked"]
    created_at: Time
    created_by: str
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None
    """Updated once a minute at most."""


class NewToken(Token):
    """A token as it is created: no other response has `token`."""

    token: str


class TokenList(Response):
    """A page of tokens, newest first."""

    tokens: list[Token]
    older: int | None
    """The cursor of the next page. Null on the last one."""
