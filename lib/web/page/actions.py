"""Forms that change something: carry a verb out, then lead back to a page with a notice of what happened."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flask import flash, redirect, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel

from lib.errors import Conflict, Forbidden, Invalid, Refused
from lib.jobs.audit import Reason
from lib.validation import StrictModel
from lib.web.problems import Problem
from lib.web.request_data import validated

# Characters of a notice. The session's cookie carries it, and browsers drop a cookie of more than 4,096 bytes.
_LONGEST_NOTICE = 300

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Why(StrictModel):
    """Why an operator acts, which the audit keeps."""

    reason: Reason


def form(model: type[M], **given: Any) -> M:
    """Return the request's form as `model`; empty fields count as left out. `given`: values that are no field of it.

    Raises:
        Problem: 422 for an invalid field.
    """
    sent = {name: value for name, value in request.form.items() if name in model.model_fields and value != ""}
    return validated(model, sent | given)


def number(field: str) -> int | str:
    """Return a field of the form as a number; what is none, as it is, for the validation to name."""
    value = request.form.get(field, "").strip()
    return int(value) if value.isdecimal() and value.isascii() and len(value) < 19 else value


def why() -> str:
    """Return the reason of the request's form.

    Raises:
        Problem: 422 without one.
    """
    return form(Why).reason


def act(verb: Callable[[], Any], *, done: str | Callable[[Any], str], to: str) -> ResponseReturnValue:
    """Carry out a verb and lead to a page of ours, with `done` as its notice, or with what is wrong.

    `done`: a sentence, or a function of the verb's result.
    """

    return attempt(verb, lambda result: lead(to, done if isinstance(done, str) else done(result)), otherwise=to)


def attempt(verb: Callable[[], T], shown: Callable[[T], ResponseReturnValue], *, otherwise: str) -> ResponseReturnValue:
    """Carry out a verb and answer with what `shown` makes of its result, or lead to `otherwise` with what is wrong."""
    try:
        result = verb()
    except (Invalid, Forbidden, Refused, Conflict, Problem) as error:
        _notify(sentence_of(error), "error")
        return redirect(otherwise, 303)
    return shown(result)


def lead(to: str, notice: str) -> ResponseReturnValue:
    """Lead to a page of ours, with a notice of what was done."""
    _notify(notice, "done")
    return redirect(to, 303)


def _notify(text: str, category: str) -> None:
    flash(text if len(text) <= _LONGEST_NOTICE else f"{text[: _LONGEST_NOTICE - 1]}…", category)


def sentence_of(error: Exception) -> str:
    """Return what is wrong with a request, for the one who sent it."""
    if isinstance(error, Problem):
        return f"{error.title}: {error.detail}" if error.detail else error.title
    return str(error)


def back(default: str, fields: Mapping[str, str] | None = None) -> str:
    """Return the page of ours that a form asks to lead back to (`back`), else `default`."""
    address = (request.form if fields is None else fields).get("back", "")
    return address if is_own(address) else default


def is_own(address: str) -> bool:
    """Return whether an address is a path of this site: a redirect to it cannot lead elsewhere."""
    begins_well = address.startswith("/") and not address.startswith(("//", "/\\"))
    return begins_well and address.isprintable() and "\\" not in address and len(address) <= 2000
