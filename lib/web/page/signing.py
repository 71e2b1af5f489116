"""Sign in and out."""

from flask import Blueprint, redirect, request, url_for
from flask.typing import ResponseReturnValue

from lib.web.page import errors, render, session
from lib.web.page.actions import is_own, sentence_of
from lib.web.problems import Problem

blueprint = Blueprint("signing", __name__)


@blueprint.get("/sign-in")
def form() -> ResponseReturnValue:
    """Return the form, or lead on if there is a session already."""
    if session.current() is not None:
        return _lead_to(_next(request.args.get("next", "")))
    return render.page("sign_in.html", next=_next(request.args.get("next", "")))


@blueprint.post("/sign-in")
def sign_in() -> ResponseReturnValue:
    """Begin a session with the token of the form. A wrong token leads back to the form, and is counted."""
    asked_for = _next(request.form.get("next", ""))
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "another site has sent this form", detail="open the page itself to sign in")
    try:
        session.sign_in(request.form.get("token", ""))
    except Problem as problem:
        shown = render.page("sign_in.html", status=problem.status, next=asked_for, error=sentence_of(problem))
        if problem.retry_after is not None:
            shown.headers["Retry-After"] = str(problem.retry_after)
        return shown
    return _lead_to(asked_for)


@blueprint.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """End the session."""
    session.check_csrf()
    session.sign_out()
    return redirect(url_for("signing.form"), 303)


def _lead_to(asked_for: str) -> ResponseReturnValue:
    """Lead to a page; instead of the first screen to the first page that the token may see."""
    if asked_for == "/":
        errors.know_caller()
        _, asked_for = render.first_page()
    return redirect(asked_for, 303)


def _next(address: str) -> str:
    return address if is_own(address) else "/"
