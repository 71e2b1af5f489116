"""The search of every page: lead to the job with a number, else show the orders that have the text.

The text may be a name or a mail address: it is part of no address of the page, unless its user sends it on as the text
of an error.
"""

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue
from pydantic import ValidationError

from lib.giftcards.schemas import OrderSearch
from lib.telemetry.redact import covered
from lib.web.page import orders, session

blueprint = Blueprint("search", __name__)


@blueprint.post("/search")
@session.view("jobs:read", all_tenants=False)
def search() -> ResponseReturnValue:
    """Lead to a job by its number; else show the orders that fit the text, and lead on to the jobs whose error has it.

    Four digits are those of a card, unless no card has them.
    """
    text = request.form.get("q", "").strip()
    is_number = text.isdecimal() and text.isascii() and len(text) < 19 and covered(text) == text
    if text and not (is_number and len(text) != 4):
        try:
            found = orders.found(OrderSearch(text=text), empty=not is_number)
        except ValidationError:  # no order can have it
            return redirect("/orders", 303)
        if found is not None:
            return found
    return redirect(f"/jobs/{int(text)}" if is_number else "/jobs", 303)
