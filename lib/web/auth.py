"""Who may come in: bearer tokens, compared in constant time. A token that is not set shuts its door."""

import hmac
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import current_app, request
from pydantic import SecretStr

from lib.config.settings import Settings
from lib.web.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")


def _presented() -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    # WSGI hands a header's bytes over as Latin-1.
    return token.encode("latin-1", "backslashreplace") if scheme.lower() == "bearer" else b""


def check(*secrets: SecretStr | None, names: str) -> None:
    """Lets the request pass if it presents one of these secrets.

    Raises:
        Problem: 503 when none of them is set, 401 when none of them fits.
    """
    values = [secret.get_secret_value() for secret in secrets if secret is not None]
    known = [value.encode() for value in values if value.strip()]
    if not known:
        raise Problem(503, "this door is shut", detail=f"{names} is not set: set it to open this door")
    presented = _presented()
    # All are compared, so that the time tells nothing of which one was close.
    fits = [hmac.compare_digest(presented, secret) for secret in known]
    if not any(fits):
        raise Problem(401, "not allowed", detail=f"send Authorization: Bearer and the value of {names}")


def _settings() -> Settings:
    settings: Settings = current_app.extensions["giftcards"].settings
    return settings


def _marked(guarded: Callable[P, T], door: str) -> Callable[P, T]:
    """Its door is told in the API's description."""
    vars(guarded)["door"] = door
    return guarded


def cron(view: Callable[P, T]) -> Callable[P, T]:
    """The clock's door: `CRON_SECRET`."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        check(_settings().cron_secret, names="CRON_SECRET")
        return view(*args, **kwargs)

    return _marked(guarded, "cron")


def admin(view: Callable[P, T]) -> Callable[P, T]:
    """The operators' door: `GIFTCARD_ADMIN_TOKEN`."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        check(_settings().giftcard_admin_token, names="GIFTCARD_ADMIN_TOKEN")
        return view(*args, **kwargs)

    return _marked(guarded, "admin")


def metrics(view: Callable[P, T]) -> Callable[P, T]:
    """Who watches: `GIFTCARD_METRICS_TOKEN`; the admin token opens it too."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        settings = _settings()
        check(settings.giftcard_metrics_token, settings.giftcard_admin_token, names="GIFTCARD_METRICS_TOKEN")
        return view(*args, **kwargs)

    return _marked(guarded, "metrics")


def api(view: Callable[P, T]) -> Callable[P, T]:
    """The tenants' door: `GIFTCARD_API_TOKEN`; the admin token opens it too."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        settings = _settings()
        check(settings.giftcard_api_token, settings.giftcard_admin_token, names="GIFTCARD_API_TOKEN")
        return view(*args, **kwargs)

    return _marked(guarded, "api")
