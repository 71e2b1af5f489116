"""Where money and cards do not match: each line with its order, what to do about it, and its acceptance."""

from itertools import groupby
from typing import Any

from flask import Blueprint, current_app
from flask.typing import ResponseReturnValue

from lib.giftcards.decisions import DIFFERENCES
from lib.giftcards.schemas import AcceptRequest, DifferenceQuery
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.services import decisions, services

blueprint = Blueprint("reconciliation", __name__, url_prefix="/reconciliation")

_ACCEPTED = 20


@blueprint.get("")
@session.view("admin", all_tenants=False)
def index() -> ResponseReturnValue:
    """Return the differences by kind, the kind with the oldest first, and those that were accepted last."""
    (query,) = filters.strictly(DifferenceQuery)
    caller = auth.caller()
    found = decisions(current_app, caller=caller).reconcile(query)
    accepted = services(current_app).store.list_audit(
        action="accept_difference", tenant_id=caller.only(query.tenant_id), limit=_ACCEPTED
    )
    return render.page(
        "reconciliation.html",
        wanted=query,
        kinds=_by_kind(found["differences"]),
        count=len(found["differences"]),
        truncated=found["truncated"],
        accepted=accepted["acts"],
        may_be_accepted=DIFFERENCES,
    )


@blueprint.post("/accept")
@session.view("admin", all_tenants=False)
def accept() -> ResponseReturnValue:
    """Accept a difference, with a reason."""
    return actions.act(
        lambda: decisions(current_app, caller=auth.caller()).accept(actions.form(AcceptRequest)),
        done="Accepted: it is not listed again unless its amount changes.",
        to=actions.back("/reconciliation"),
    )


def _by_kind(differences: list[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return each kind with what to do about it and its lines; kinds and lines begin with the oldest."""
    order = list(dict.fromkeys(each["kind"] for each in differences))
    ordered = sorted(differences, key=lambda each: order.index(each["kind"]))
    groups = [(kind, list(lines)) for kind, lines in groupby(ordered, key=lambda each: each["kind"])]
    return [(kind, lines[0]["action"], lines) for kind, lines in groups]
