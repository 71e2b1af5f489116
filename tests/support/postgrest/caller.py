"""Who calls: Supabase's gateway looks at the `apikey`, PostgREST at the JWT."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.postgrest.problems import Problem

JWT_SECRET = "super-secret-jwt-token-with-at-least-32-characters-long"
ANON = "anon"
_SKEW = 30  # seconds by which clocks may differ


@dataclass(frozen=True, slots=True)
class Caller:
    """The role that the transaction takes, and the claims that it can read."""

    role: str
    claims: dict[str, Any]

    @property
    def authenticated(self) -> bool:
        return self.role != ANON


def jwt(role: str | None, *, secret: str = JWT_SECRET, **claims: Any) -> str:
    """A token as Supabase's older keys are. Its role, and more that it claims."""
    whole = ({"role": role} if role else {}) | {"iss": "supabase"} | claims
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, whole))
    return f"{signed}.{_encoded(_signature(signed, secret))}"


def identify(headers: Mapping[str, str]) -> Caller:
    """The caller of a request; the names of its headers are in lower case.

    Raises:
        Problem: no key, or one of another project (401 of the gateway); a token that is not good (401 of PostgREST).
    """
    key = headers.get("apikey")
    if not key:
        raise Problem(
            401, None, "No API key found in request", hint="No `apikey` request header or url param was found."
        )
    if key not in KEYS:
        hint = "Double check your Supabase `anon` or `service_role` API key."
        raise Problem(401, None, "Invalid API key", hint=hint)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        token = ""
        if "authorization" not in headers and key.startswith("sb_"):
            token = jwt(KEYS[key])
    elif token == key and key.startswith("sb_"):
        token = jwt(KEYS[key])
    elif not token:
        raise _invalid("PGRST301", "Empty JWT is sent in Authorization header")
    if not token:
        return Caller(ANON, {"role": ANON})
    claims = _claims(token)
    role = str(claims.get("role") or ANON)
    return Caller(role, claims | {"role": role})


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        raise _invalid("PGRST301", f"Expected 3 parts in JWT; got {len(parts)}")
    try:
        signature = _decoded(parts[2])
        claims = json.loads(_decoded(parts[1]))
    except ValueError:
        raise _invalid("PGRST301", "JWT cryptographic operation failed") from None
    if not hmac.compare_digest(signature, _signature(f"{parts[0]}.{parts[1]}", JWT_SECRET)):
        raise _invalid("PGRST301", "No suitable key or wrong key type")
    if not isinstance(claims, dict):
        raise _invalid("PGRST303", "Parsing claims failed")
    now = time.time()
    for claim, wrong, message in (
        ("exp", lambda at: at < now - _SKEW, "JWT expired"),
        ("nbf", lambda at: at > now + _SKEW, "JWT not yet valid"),
        ("iat", lambda at: at > now + _SKEW, "JWT issued at future"),
    ):
        at = claims.get(claim)
        if at is not None and not isinstance(at, int | float):
            raise _invalid("PGRST303", f"The JWT '{claim}' claim must be a number")
        if at is not None and wrong(at):
            raise _invalid("PGRST303", message)
    return claims


def _invalid(code: str, message: str) -> Problem:
    described = f'Bearer error="invalid_token", error_description="{message}"'
    return Problem(401, code, message, headers={"WWW-Authenticate": described})


def _signature(signed: str, secret: str) -> bytes:
    return hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest()


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# A project's keys, with the role of each: new ones and, as JWTs, older ones.
SECRET_KEY = "sb_secret_of_the_stand_in_0123456789"
PUBLISHABLE_KEY = "sb_publishable_of_the_stand_in_01234"
SERVICE_ROLE_KEY = jwt("service_role", exp=4_102_444_800)
ANON_KEY = jwt("anon", exp=4_102_444_800)
KEYS: Mapping[str, str] = {
    SECRET_KEY: "service_role",
    PUBLISHABLE_KEY: "anon",
    SERVICE_ROLE_KEY: "service_role",
    ANON_KEY: "anon",
}
