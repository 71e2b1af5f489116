"""Authentication: who calls, by a bearer token, and what that token allows.

The tokens of the environment are compared in constant time, without the database: the clock and the operators get in
while it is away. Any other token is a row of `giftcard_tokens`. An endpoint declares the scope that it requires.
"""

import hmac
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, get_args

from flask import current_app, g, request

from lib.caller import Caller
from lib.config.settings import Settings
from lib.tokens.schemas import Scope
from lib.tokens.service import PREFIX, hash_of
from lib.web import throttle
from lib.web.clock import bearer_token
from lib.web.problems import Problem
from lib.web.services import services

P = ParamSpec("P")
T = TypeVar("T")

# Beside the scopes of rows: to run ticks as a scheduler, which only `CRON_SECRET` may.
Required = Scope | Literal["ticks"]
_EVERY_SCOPE: frozenset[str] = frozenset(get_args(Scope))
# The tokens of the environment, the one that allows least first.
_SCOPES: dict[str, frozenset[str]] = {
    "CRON_SECRET": frozenset({"ticks"}),
    "GIFTCARD_API_TOKEN": frozenset({"orders:write", "orders:read"}),
    "GIFTCARD_METRICS_TOKEN": frozenset({"metrics"}),
    "GIFTCARD_ADMIN_TOKEN": _EVERY_SCOPE,
}
_DENIED = {
    "unknown": "this token is not known here",
    "expired": "this token has expired: create another one",
    "revoked": "this token is revoked: create another one",
}


@dataclass(frozen=True, slots=True)
class Access:
    """A caller, and the scopes of the token that they presented."""

    caller: Caller
    scopes: frozenset[str]


def disabled(setting: str) -> Problem:
    """Return the problem of an endpoint whose setting is missing."""
    return Problem(503, "endpoint disabled", detail=f"{setting} is not set: set it to enable this endpoint")


def scope(required: Required, *, all_tenants: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Require a token with this scope. `all_tenants`: the endpoint is about every tenant, so the token has to be, too.

    The view raises:
        Problem: 401 for a token that is missing, unknown, expired or revoked; 429 after too many of them; 403 for a
        token without the scope, or of one tenant; 503 if no token of the environment has the scope.
    """

    def decorated(view: Callable[P, T]) -> Callable[P, T]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            let_in(_presented_access(required), required, all_tenants=all_tenants)
            return view(*args, **kwargs)

        # The OpenAPI document reads them.
        vars(guarded).update(scope=required, all_tenants=all_tenants)
        return guarded

    return decorated


def let_in(access: Access, required: Required, *, all_tenants: bool) -> None:
    """Make this request one of `access`.

    Raises:
        Problem: 403 for a token without the scope, or of one tenant.
    """
    g.caller, g.scopes = access.caller, access.scopes
    require(required)
    if all_tenants and (own := access.caller.tenant_id) is not None:
        detail = f"this token is for the tenant {own} only, and this endpoint is about all tenants"
        raise Problem(403, "not allowed for one tenant", detail=detail)


def require(required: Required) -> None:
    """Require a scope of the token that let this request in.

    Raises:
        Problem: 403 without it.
    """
    if not allows(g.scopes, required):
        raise Problem(403, "not allowed with this token", detail=f"this requires a token with the scope {required}")


def allows(scopes: frozenset[str], required: Required) -> bool:
    """Return whether these scopes include one."""
    return required in scopes or (required in _EVERY_SCOPE and "admin" in scopes)


def caller() -> Caller:
    """Return who sent this request: whom the view's decorator let in."""
    found: Caller = g.caller
    return found


def _presented_access(required: Required) -> Access:
    known = list(environment(services(current_app).settings))
    presented = bearer_token(request.environ)
    if matches := matching(presented, known):
        scopes = frozenset[str]().union(*(access.scopes for access in matches))
        return Access(next((a for a in matches if required in a.scopes), matches[0]).caller, scopes)
    if not presented.startswith(PREFIX.encode()) and not any(required in access.scopes for _, access in known):
        raise disabled(_variable(required))
    wanted = "the value of CRON_SECRET" if required == "ticks" else f"a token with the scope {required}"
    if not presented:
        raise Problem(401, "not allowed", detail=f"send Authorization: Bearer and {wanted}")
    return access_of_row(hash_of(presented))


def matching(presented: bytes, known: Iterable[tuple[bytes, Access]]) -> list[Access]:
    """Return what the tokens that equal this one allow. All are compared: the time does not reveal a close one."""
    return [access for secret, access in known if hmac.compare_digest(presented, secret)]


def access_of_row(hash: str) -> Access:
    """Return what the token with this hash allows.

    Raises:
        Problem: 401 for an unknown, expired or revoked one, 429 after too many of them; it is counted.
    """
    row = services(current_app).store.check_token(hash, bucket=throttle.bucket())
    if "reason" in row:
        raise throttle.denied(row, Problem(401, "not allowed", detail=_DENIED[row["reason"]]))
    return Access(Caller(f"token {row['name']}", row["tenant_id"]), frozenset(row["scopes"]))


def environment(settings: Settings) -> Iterator[tuple[bytes, Access]]:
    """Yield the tokens of the environment that are set, each with what it allows."""
    for variable, scopes in _SCOPES.items():
        secret = getattr(settings, variable.lower())
        value = secret.get_secret_value() if secret else ""
        if value.strip():
            name = variable.removeprefix("GIFTCARD_").replace("_", " ").lower()
            yield value.encode(), Access(Caller(name), scopes)


def _variable(required: Required) -> str:
    """Return the variable of the environment's token for a scope: the one that allows least."""
    return next(variable for variable, scopes in _SCOPES.items() if required in scopes)
