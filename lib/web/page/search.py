"""The search of every page: lead to the job with a number, else to what has the text."""

from urllib.parse import urlencode

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue

from lib.web.page import session

blueprint = Blueprint("search", __name__)


@blueprint.post("/search")
@session.view("jobs:read", all_tenants=False)
def search() -> ResponseReturnValue:
    """Lead to a job by its number, else to the jobs whose error has this text."""
    text = request.form.get("q", "").strip()
    if text.isdecimal() and text.isascii() and len(text) < 19:
        return redirect(f"/jobs/{int(text)}", 303)
    return redirect(f"/jobs?{urlencode({'error': text})}" if text else "/jobs", 303)
