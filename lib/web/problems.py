"""Errors over HTTP: problem+json (RFC 9457), with the field at fault."""

from typing import Any

from flask import Flask, Response, current_app, json
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from lib.errors import Conflict, Invalid, Misconfigured, Refused, StoreError
from lib.telemetry import events
from lib.validation import field_errors

_STATUS = {"GC400": 400, "GC404": 404, "GC409": 409, "GC422": 422}


class Problem(Exception):
    """Ends the request with this status; `field` names what is at fault."""

    def __init__(self, status: int, title: str, *, detail: str = "", field: str | None = None) -> None:
        super().__init__(title)
        self.status, self.title, self.detail, self.field = status, title, detail, field


def answer(status: int, title: str, *, detail: str = "", field: str | None = None, **more: Any) -> Response:
    """A problem+json response."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status}
    body |= {"detail": detail} if detail else {}
    body |= {"field": field} if field else {}
    response = Response(json.dumps(body | more), status, content_type="application/problem+json")
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status == 503:
        response.headers["Retry-After"] = "60"
    return response


def from_validation(error: ValidationError, *, what: str = "body") -> Problem:
    """The first field at fault; never what was in it."""
    field, words = field_errors(error)[0]
    return Problem(422, f"the {what} is not valid", detail=f"{field} {words}".strip(), field=field or None)


def register(app: Flask) -> None:
    """Every error leaves as a problem; what is inside stays inside."""
    app.register_error_handler(Problem, _problem)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Invalid, _invalid)
    app.register_error_handler(StoreError, of_store)
    app.register_error_handler(Exception, _unexpected)


def _problem(error: Problem) -> Response:
    return answer(error.status, error.title, detail=error.detail, field=error.field)


def _http(error: HTTPException) -> Response:
    response = answer(error.code or 500, error.name, detail=error.description or "")
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response


def _invalid(error: Invalid) -> Response:
    return answer(422, "the request is not valid", detail=str(error), field=error.field)


def of_store(error: StoreError, **more: Any) -> Response:
    """The problem that a failed call of the database is; `more` goes with it where the database is away."""
    if isinstance(error, Refused) and error.sqlstate in _STATUS:
        return answer(_STATUS[error.sqlstate], str(error), field=error.field or None)
    if isinstance(error, Refused | Conflict):
        # The database found what our own checks did not: the caller's data, and nothing was changed.
        events.emit("request_failed", error=type(error).__name__, sqlstate=getattr(error, "sqlstate", "23505"))
        return answer(400, "the database refused this data", field=getattr(error, "field", None))
    events.emit("request_failed", error=str(error))
    if isinstance(error, Misconfigured):
        return answer(503, "the database and this code do not fit", detail=str(error), **more)
    detail = "nothing was lost: the next call goes on where this one stopped"
    return answer(503, "the database is away", detail=detail, **more)


def _unexpected(error: Exception) -> Response:
    if current_app.extensions["giftcards"].settings.giftcard_inline:
        raise error  # a developer's: Flask writes its traceback, or opens its debugger there
    events.emit("request_failed", error=type(error).__name__)
    return answer(500, "something went wrong here", detail="it was logged")
