"""Limits: how much runs and starts of what may, and who holds it there until when; set and remove."""

from typing import Any, get_args

from flask import Blueprint, current_app, request, url_for
from flask.typing import ResponseReturnValue

from lib.jobs.limits import Limits, label, rate
from lib.jobs.schemas import LimitKind, LimitPage, LimitRemoval, LimitRequest
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.services import services

blueprint = Blueprint("limits", __name__, url_prefix="/limits")

_HOUR = 3_600
# How long a limit holds, in seconds. The first is proposed.
_TIMES = (
    ("an hour", _HOUR),
    ("2 hours", 2 * _HOUR),
    ("8 hours", 8 * _HOUR),
    ("a day", 24 * _HOUR),
    ("a week", 7 * 24 * _HOUR),
    ("good", None),
)


def _limits() -> Limits:
    own = services(current_app)
    return Limits(own.store, own.registry, caller=auth.caller())


@blueprint.get("")
@session.view("jobs:read")
def index() -> ResponseReturnValue:
    """Return a page of limits, each with what is in force."""
    (page,) = filters.strictly(LimitPage)
    found = _limits().find(page)
    rows = [limit | {"label": label(limit), "rate": rate(limit["in_force"])} for limit in found["limits"]]
    stages = sorted(services(current_app).registry().stages)
    return render.page(
        "limits.html", limits=rows, older=found["older"], kinds=get_args(LimitKind), times=_TIMES, stages=stages
    )


@blueprint.post("")
@session.view("admin")
def set_limit() -> ResponseReturnValue:
    """Set a limit."""

    def verb() -> Any:
        given: dict[str, Any] = {"reason": actions.why()}
        given |= {name: actions.number(name) for name in ("runs", "burst", "for_seconds") if request.form.get(name)}
        if request.form.get("per_second"):
            given["per_second"] = _decimal(request.form["per_second"].strip())
        return _limits().set(actions.form(LimitRequest, **given))

    return actions.act(
        verb,
        done=lambda limit: f"The limit of {label(limit)} is set: the next claims obey it.",
        to=url_for("limits.index"),
    )


@blueprint.post("/remove")
@session.view("admin")
def remove() -> ResponseReturnValue:
    """Remove a limit."""
    return actions.act(
        lambda: _limits().remove(actions.form(LimitRemoval, reason=actions.why())),
        done=lambda limit: f"The limit of {label(limit)} is removed: the default is in force.",
        to=url_for("limits.index"),
    )


def _decimal(text: str) -> float | str:
    """Return a field of a form as a number; what is none, as it is, for the validation to name."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    return float(text) if digits.isdecimal() and digits.isascii() and len(digits) < 16 else text
