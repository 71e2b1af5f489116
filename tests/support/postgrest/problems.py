"""Errors as PostgREST tells them: {code, message, details, hint}, and an HTTP status."""

import json
from typing import Any

import psycopg

# By SQLSTATE, the whole or its first two letters; anything else is 400.
_EXACT = {
    "23503": 409, "23505": 409, "25006": 405, "53400": 500, "57P01": 503, "P0001": 400, "42883": 404, "42P01": 404,
    "42P17": 500,
}  # fmt: skip
_CLASS = {
    "08": 503, "09": 500, "0L": 403, "0P": 403, "25": 500, "28": 403, "2D": 500, "38": 500, "39": 500, "3B": 500,
    "40": 500, "53": 503, "54": 500, "55": 500, "57": 500, "58": 500, "F0": 500, "HV": 500, "P0": 500, "XX": 500,
}  # fmt: skip


class Problem(Exception):
    """Ends a request. `code` None: told by the gateway, not by PostgREST."""

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        *,
        details: str | None = None,
        hint: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "message": message, "details": details, "hint": hint}
        self.headers = {"Content-Type": "application/json; charset=utf-8"} | (headers or {})
        if code is None:
            self.body = {"message": message, "hint": hint}
            return
        self.headers["Proxy-Status"] = f"PostgREST; error={code}"
        if status == 401:
            self.headers.setdefault("WWW-Authenticate", "Bearer")


def of_postgres(error: psycopg.Error, *, authenticated: bool) -> Problem:
    """What the database refused, or that it is away."""
    said = error.diag
    if error.sqlstate is None:
        return Problem(503, "PGRST001", "Database client error. Retrying the connection.", details=str(error))
    message = said.message_primary or ""
    if error.sqlstate == "PGRST":
        return _raised(message, said.message_detail)
    status = status_of(error.sqlstate, message, authenticated=authenticated)
    return Problem(status, error.sqlstate, message, details=said.message_detail, hint=said.message_hint)


def status_of(state: str, message: str, *, authenticated: bool) -> int:
    """The HTTP status of an SQLSTATE."""
    if state.startswith("PT"):
        return int(state[2:]) if state[2:].isdigit() else 500
    if state == "42501":
        return 403 if authenticated else 401
    if state == "21000":
        return 400 if message.endswith("requires a WHERE clause") else 500
    if state == "22023":
        return 401 if message.startswith("role") and message.endswith("does not exist") else 400
    return _EXACT.get(state) or _CLASS.get(state[:2], 400)


def _raised(message: str, detail: str | None) -> Problem:
    """`raise sqlstate 'PGRST'`: MESSAGE and DETAIL are JSON that says everything."""
    about = (
        "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'."
    )
    said = _object(message, "code", "message")
    if said is None:
        return _unreadable(f"Invalid JSON value for MESSAGE: '{message}'", about)
    about = "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'."
    if detail is None:
        return _unreadable("DETAIL is missing in the RAISE statement", about)
    reply = _object(detail, "status", "headers")
    if reply is None:
        return _unreadable(f"Invalid JSON value for DETAIL: '{detail}'", about)
    return Problem(
        reply["status"],
        said["code"],
        said["message"],
        details=said.get("details"),
        hint=said.get("hint"),
        headers=reply["headers"],
    )


def _unreadable(details: str, hint: str) -> Problem:
    message = "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error"
    return Problem(500, "PGRST121", message, details=details, hint=hint)


def _object(text: str, *obligatory: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and set(obligatory) <= set(value) else None
