"""Errors over HTTP: problem+json (RFC 9457), with the invalid field."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Flask, Response, current_app, g, json, request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import HTTPException

from lib.errors import Conflict, Forbidden, Invalid, Misconfigured, Refused, StoreError, Unavailable
from lib.store.sqlstate import class_of
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.validation import FieldError, error_sentence, field_errors
from lib.web.services import services

_STATUS = {"GC400": 400, "GC404": 404, "GC409": 409, "GC422": 422}
# What is wrong with the whole database, by SQLSTATE.
_NAMED: Mapping[str | None, str] = {
    "25006": "the database is read-only",
    "53100": "the disk of the database is full",
    "53300": "the database has no connection left",
}
_TICKS = frozenset({"cron.tick", "cron.run"})
# Besides GET: requests that have no further effect when they are repeated.
_IDEMPOTENT = frozenset(
    {
        *("decisions.make_free", "decisions.correct_recipient", "decisions.record_event", "decisions.block_card"),
        *(
            "batches.add",
            "batches.seal",
            "bulk.stop",
            "inbound_webhooks.from_square",
            "jobs.enqueue",
            "orders.search",
            "reports.create",
            "schedules.pause",
            "tokens.revoke",
        ),
        "webhooks.update",
    }
)
# Invalid fields that a response lists.
_MOST_ERRORS = 100
# Changes in several calls: the last one may be undone and an earlier one not.
_IN_STEPS = frozenset({"batches.cancel", "jobs.requeue_jobs"})


class Problem(Exception):
    """End the request with this status. `field` names the invalid field or parameter, the first of `errors`.

    `retry_after`: the seconds before another request makes sense.
    """

    def __init__(
        self,
        status: int,
        title: str,
        *,
        detail: str = "",
        field: str | None = None,
        retry_after: int | None = None,
        errors: Sequence[FieldError] = (),
    ) -> None:
        super().__init__(title)
        self.status, self.title, self.detail, self.field = status, title, detail, field
        self.retry_after, self.errors = retry_after, errors


def problem(
    status: int,
    title: str,
    *,
    detail: str = "",
    field: str | None = None,
    errors: Sequence[FieldError] = (),
    **more: Any,
) -> Response:
    """Return a problem+json response; `more` are further members."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status}
    body |= {"detail": detail} if detail else {}
    body |= {"field": field} if field else {}
    body |= {"errors": [{"field": name, "message": text} for name, text in errors[:_MOST_ERRORS]]} if errors else {}
    response = Response(json.dumps(body | more), status, content_type="application/problem+json")
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status == 503:
        response.headers["Retry-After"] = "60"
    return response


def from_validation(error: ValidationError, model: type[BaseModel]) -> Problem:
    """Return the problem of the invalid fields of a body, without their values."""
    return of_fields(field_errors(error, model), what="body")


def of_fields(errors: Sequence[FieldError], *, what: str) -> Problem:
    """Return the problem of invalid fields of `what`."""
    return Problem(
        422, f"the {what} is not valid", detail=error_sentence(errors), field=errors[0][0] or None, errors=errors
    )


def register(app: Flask) -> None:
    """Return every error as a problem, without internals."""
    app.register_error_handler(Problem, _problem)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Invalid, _invalid)
    app.register_error_handler(Forbidden, _forbidden)
    app.register_error_handler(StoreError, of_store)
    app.register_error_handler(Exception, _unexpected)


def responded(app: Flask, environ: dict[str, Any], error: Exception) -> Response:
    """Return the response to a request that has failed outside of Flask, as if its view had raised this."""
    with app.request_context(environ):
        return app.process_response(app.make_response(app.handle_user_exception(error)))


def _problem(error: Problem) -> Response:
    response = problem(error.status, error.title, detail=error.detail, field=error.field, errors=error.errors)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _http(error: HTTPException) -> Response:
    response = problem(error.code or 500, error.name, detail=error.description or "")
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response


def _invalid(error: Invalid) -> Response:
    return problem(422, "the request is not valid", detail=str(error), field=error.field, errors=error.errors)


def _forbidden(error: Forbidden) -> Response:
    if error.fix:
        return problem(403, error.message, detail=error.fix)
    return problem(403, "not allowed", detail=str(error), field=error.field)


def of_store(error: StoreError, **more: Any) -> Response:
    """Return the problem of a failed database call. `more` is added to a 503."""
    if isinstance(error, Refused) and error.sqlstate in _STATUS:
        return problem(_STATUS[error.sqlstate], str(error), field=error.field or None)
    if isinstance(error, Refused | Conflict):
        # A constraint that validation does not cover: the request's data is at fault, and nothing was changed.
        events.emit("request_failed", error=type(error).__name__, sqlstate=getattr(error, "sqlstate", "23505"))
        return problem(400, "the database refused this data", field=getattr(error, "field", None))
    text = clean(str(error), secrets=services(current_app).settings.secrets())
    events.emit("request_failed", error=text, sqlstate=error.sqlstate)
    if isinstance(error, Misconfigured):
        return problem(503, "the database and this code do not fit", detail=text, **more)
    return problem(503, _title(error), detail=_what_now(error), **more)


def _title(error: StoreError) -> str:
    """Return what is wrong, as far as it is known: to restart a database that only fails one call does not help."""
    if error.sqlstate in _NAMED:
        return _NAMED[error.sqlstate]
    is_up = error.sqlstate is not None and class_of(error.sqlstate).fault == "call"
    return f"the database failed this call (SQLSTATE {error.sqlstate})" if is_up else "the database is away"


def _what_now(error: StoreError) -> str:
    """Return what became of the request, and whether to repeat it."""
    if request.endpoint in _TICKS:
        return "nothing was lost: the next call continues where this one stopped"
    if request.method in ("GET", "HEAD") or request.endpoint in _IDEMPOTENT or _is_keyed_order():
        return "repeat the request: it is safe"
    if g.get("caller") is None:  # the token was being looked up
        return "nothing was changed: repeat the request"
    if isinstance(error, Unavailable) and error.undone and request.endpoint not in _IN_STEPS:
        return "nothing was changed: repeat the request"
    return "it may have been carried out: look before you repeat it"


def _is_keyed_order() -> bool:
    """Return whether this is an order that is found again when it is sent again."""
    if request.endpoint != "orders.submit":
        return False
    body = request.get_json(silent=True)
    return "Idempotency-Key" in request.headers or (isinstance(body, dict) and bool(body.get("correlation_id")))


def _unexpected(error: Exception) -> Response:
    if services(current_app).settings.giftcard_inline:
        raise error  # on a developer's machine Flask prints the traceback or opens its debugger
    events.emit("request_failed", error=type(error).__name__)
    return problem(500, "something went wrong here", detail="it was logged")
