"""The first screen: what is wrong, whether it works, what is stuck, what happened today."""

from flask import Blueprint
from flask.typing import ResponseReturnValue

from lib.web.page import render, session

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
@session.view("jobs:read")
def show() -> ResponseReturnValue:
    """Return the first screen."""
    return render.page("overview.html")
