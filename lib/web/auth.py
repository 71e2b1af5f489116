"""Authentication: bearer tokens, compared in constant time. An endpoint whose token is not set is disabled."""

import hmac
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import current_app, g, request
from pydantic import SecretStr

from lib.caller import Caller
from lib.config.settings import Settings
from lib.web.problems import Problem
from lib.web.services import services

P = ParamSpec("P")
T = TypeVar("T")


def disabled(setting: str) -> Problem:
    """Return the problem of an endpoint whose setting is missing."""
    return Problem(503, "endpoint disabled", detail=f"{setting} is not set: set it to enable this endpoint")


def check(*secrets: SecretStr | None, names: str) -> None:
    """Check that the request has one of these secrets.

    Raises:
        Problem: 503 if none of them is set, 401 if none of them matches.
    """
    values = [secret.get_secret_value() for secret in secrets if secret is not None]
    known = [value.encode() for value in values if value.strip()]
    if not known:
        raise disabled(names)
    presented = _presented()
    # Compare all of them, so that the time does not reveal which one was close.
    matches = [hmac.compare_digest(presented, secret) for secret in known]
    if not any(matches):
        raise Problem(401, "not allowed", detail=f"send Authorization: Bearer and the value of {names}")


def caller() -> Caller:
    """Return who sent this request: whom the view's decorator let in."""
    found: Caller = g.caller
    return found


def _presented() -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    # WSGI hands a header's bytes over as Latin-1.
    return token.encode("latin-1", "backslashreplace") if scheme.lower() == "bearer" else b""


def _settings() -> Settings:
    return services(current_app).settings


def _marked(guarded: Callable[P, T], scheme: str) -> Callable[P, T]:
    """Attach the security scheme, which the OpenAPI document reads."""
    vars(guarded)["scheme"] = scheme
    return guarded


def cron(view: Callable[P, T]) -> Callable[P, T]:
    """Require `CRON_SECRET`: endpoints for schedulers."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        check(_settings().cron_secret, names="CRON_SECRET")
        g.caller = Caller("cron secret")
        return view(*args, **kwargs)

    return _marked(guarded, "cron")


def admin(view: Callable[P, T]) -> Callable[P, T]:
    """Require `GIFTCARD_ADMIN_TOKEN`: endpoints for operators."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        check(_settings().giftcard_admin_token, names="GIFTCARD_ADMIN_TOKEN")
        g.caller = Caller("admin token")
        return view(*args, **kwargs)

    return _marked(guarded, "admin")


def metrics(view: Callable[P, T]) -> Callable[P, T]:
    """Require `GIFTCARD_METRICS_TOKEN` or the admin token: endpoints for monitors."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        settings = _settings()
        check(settings.giftcard_metrics_token, settings.giftcard_admin_token, names="GIFTCARD_METRICS_TOKEN")
        g.caller = Caller("metrics token")
        return view(*args, **kwargs)

    return _marked(guarded, "metrics")


def api(view: Callable[P, T]) -> Callable[P, T]:
    """Require `GIFTCARD_API_TOKEN` or the admin token: endpoints for tenants."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        settings = _settings()
        check(settings.giftcard_api_token, settings.giftcard_admin_token, names="GIFTCARD_API_TOKEN")
        g.caller = Caller("api token")
        return view(*args, **kwargs)

    return _marked(guarded, "api")
