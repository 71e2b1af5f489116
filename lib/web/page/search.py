"""The search of every page: lead to the job with a number, else show the orders or jobs that have the text.

A mail address is never part of an address of the page.
"""

from urllib.parse import urlencode

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue
from pydantic import ValidationError

from lib.giftcards.schemas import OrderSearch
from lib.web.page import orders, session

blueprint = Blueprint("search", __name__)


@blueprint.post("/search")
@session.view("jobs:read", all_tenants=False)
def search() -> ResponseReturnValue:
    """Lead to a job by its number; else show the orders that fit the text, or lead to the jobs whose error has it.

    Four digits are those of a card, unless none has them.
    """
    text = request.form.get("q", "").strip()
    is_number = text.isdecimal() and text.isascii() and len(text) < 19
    if text and not (is_number and len(text) != 4):
        try:
            found = orders.found(OrderSearch(text=text), empty="@" in text)
        except ValidationError:  # no order can have it
            found = None
        if found is not None:
            return found
    if is_number:
        return redirect(f"/jobs/{int(text)}", 303)
    return redirect(f"/jobs?{urlencode({'error': text})}" if text and "@" not in text else "/jobs", 303)
