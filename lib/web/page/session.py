"""Sessions of the page: a token signs in, and its signed cookie lets in until it ends, or until its token does."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import ParamSpec

from flask import Flask, current_app, g, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from lib.config.settings import Settings
from lib.tokens.schemas import Scope
from lib.tokens.service import hash_of
from lib.web import auth
from lib.web.problems import Problem
from lib.web.services import services

P = ParamSpec("P")

# A session ends this long after its sign-in, in seconds.
LIFETIME = 12 * 3600
# How the headers begin that a proxy adds: its own address is this machine's, that of its callers is not.
_OF_PROXIES = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "via", "cf-")
_NO_KEY = "set GIFTCARD_ADMIN_TOKEN and deploy again: it signs in here"


class _Sessions(SecureCookieSessionInterface):
    digest_method = staticmethod(hashlib.sha256)


def configure(app: Flask, settings: Settings) -> None:
    """Sign the cookies of this application with a key that its secrets make: another secret ends all sessions."""
    secure = settings.is_production
    app.secret_key = _key(settings)
    app.session_interface = _Sessions()
    app.config.update(
        SESSION_COOKIE_NAME="__Host-giftcards" if secure else "giftcards",
        SESSION_COOKIE_SECURE=secure,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_COOKIE_PATH="/",
        PERMANENT_SESSION_LIFETIME=LIFETIME,
        SESSION_REFRESH_EACH_REQUEST=False,
    )


def view(
    required: Scope, *, all_tenants: bool = True
) -> Callable[[Callable[P, ResponseReturnValue]], Callable[P, ResponseReturnValue]]:
    """Require a session whose token has this scope, and of a change the form's CSRF token. `all_tenants`: as in
    `lib.web.auth.scope`. Without a session, the view leads to the sign-in.

    The view raises:
        Problem: 403 for a token without the scope, of one tenant, or a form that another site has sent.
    """

    def decorated(function: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
            access = current()
            if access is None:
                return _to_sign_in()
            auth.let_in(access, required, all_tenants=all_tenants)
            if request.method not in ("GET", "HEAD"):
                check_csrf()
            return function(*args, **kwargs)

        vars(guarded).update(scope=required, all_tenants=all_tenants)
        return guarded

    return decorated


def sign_in(token: str) -> None:
    """Begin a session with a token.

    Raises:
        Problem: 401 for a token that is unknown, expired or revoked; 429 after too many of them; 503 without a key.
    """
    if not current_app.secret_key:
        raise Problem(503, "no sign-in is possible", detail=_NO_KEY)
    presented = token.strip().encode()
    known = list(auth.environment(services(current_app).settings))
    if not auth.matching(presented, known):
        auth.access_of_row(hash_of(presented))
        _begin(hash=hash_of(presented))
    else:
        _begin(mac=_mac(presented))


def sign_out() -> None:
    """End the session."""
    session.clear()


def current() -> auth.Access | None:
    """Return what the session's token allows now. None: there is no session, or it has ended, or its token has."""
    if not current_app.secret_key:
        raise Problem(503, "no sign-in is possible", detail=_NO_KEY)
    if not session.get("until", 0) > time.time():
        if not _opens_by_itself():
            return None
        _begin(own=True)
    known = list(auth.environment(services(current_app).settings))
    if session.get("own"):
        return next((access for _, access in known if "admin" in access.scopes), None) if _opens_by_itself() else None
    if mac := session.get("mac"):
        found = [access for secret, access in known if hmac.compare_digest(_mac(secret), mac)]
        # Of one value in two variables, that which allows more.
        return max(found, key=lambda access: len(access.scopes), default=None)
    try:
        return auth.access_of_row(session.get("hash", ""))
    except Problem:
        return None


def csrf() -> str:
    """Return the token that this session's forms send back."""
    return str(session.get("csrf", ""))


def check_csrf() -> None:
    """Check that a page of this session has sent this form.

    Raises:
        Problem: 403 otherwise.
    """
    sent = request.form.get("csrf", "") or request.headers.get("X-CSRF-Token", "")
    foreign = request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none")
    if foreign or not csrf() or not hmac.compare_digest(sent.encode(), csrf().encode()):
        raise Problem(403, "this form is out of date", detail="nothing was changed: reload the page and send it again")


def can(required: Scope) -> bool:
    """Return whether the session's token has a scope, so that a page shows what it allows."""
    return auth.allows(g.get("scopes", frozenset()), required)


def is_of_one_tenant() -> bool:
    """Return whether the session's token sees one tenant only."""
    return "caller" in g and auth.caller().tenant_id is not None


def _begin(**identity: str | bool) -> None:
    session.clear()
    session.permanent = True
    session.update(identity, csrf=secrets.token_urlsafe(24), until=int(time.time()) + LIFETIME)


def _to_sign_in() -> ResponseReturnValue:
    session.clear()
    asked_for = request.full_path.rstrip("?") if request.method == "GET" else "/"
    address = url_for("signing.form", next=asked_for if asked_for != "/" else None)
    if "HX-Request" in request.headers:  # a redirect would put the form into the page that polls
        return Response(status=200, headers={"HX-Redirect": address})
    return redirect(address, 303)


def _opens_by_itself() -> bool:
    """Return whether this is a request of this machine to itself, which `make dev` lets in without a token."""
    return (
        services(current_app).settings.giftcard_page_open
        and _is_loopback(request.remote_addr or "")
        and _is_loopback(request.host.rpartition(":")[0].strip("[]") or request.host)
        and not any(name.lower().startswith(_OF_PROXIES) for name, _ in request.headers)
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _mac(secret: bytes) -> str:
    key = current_app.secret_key or b""
    return hmac.new(key if isinstance(key, bytes) else key.encode(), secret, hashlib.sha256).hexdigest()


def _key(settings: Settings) -> bytes | None:
    """Return the key of sessions; None: no secret is set."""
    given = (settings.giftcard_admin_token, settings.cron_secret, settings.giftcard_encryption_keys)
    values = [value.get_secret_value() if value else "" for value in given]
    if not any(values):
        return None
    return hmac.new("\0".join(values).encode(), b"giftcard page sessions", hashlib.sha256).digest()
