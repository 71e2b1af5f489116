"""The search of every page: lead to the job with a number, else show the orders or jobs that have the text.

What errors and logs cover is never part of an address of the page: mail addresses, card numbers, tokens, links.
"""

from urllib.parse import urlencode

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
    """Lead to a job by its number; else show the orders that fit the text, or lead to the jobs whose error has it.

    Four digits are those of a card, unless none has them.
    """
    text = request.form.get("q", "").strip()
    is_secret = "@" in text or covered(text) != text
    is_number = text.isdecimal() and text.isascii() and len(text) < 19 and not is_secret
    if text and not (is_number and len(text) != 4):
        try:
            found = orders.found(OrderSearch(text=text), empty=is_secret)
        except ValidationError:  # no order can have it
            found = None
        if found is not None:
            return found
    if is_number:
        return redirect(f"/jobs/{int(text)}", 303)
    return redirect(f"/jobs?{urlencode({'error': text})}" if text and not is_secret else "/jobs", 303)
