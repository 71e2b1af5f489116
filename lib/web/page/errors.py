"""Problems as pages: the same sentences as the API has, with the way back."""

from contextlib import suppress

from flask import Response, g, request

from lib.errors import StoreError
from lib.web.page import render, session
from lib.web.problems import Problem

_PROBLEM = "application/problem+json"


def as_page(response: Response) -> Response:
    """Return the page of a problem; any other response as it is. A poll goes on from it: the trouble may end."""
    if response.content_type != _PROBLEM:
        return response
    if "caller" not in g:  # no view has begun, as with an unknown address: the menu shows what the session may see
        with suppress(Problem, StoreError):
            _know_caller()
    problem = response.get_json()
    shown = render.page("problem.html", status=response.status_code, problem=problem, again=request.method == "GET")
    for name in ("Retry-After", "Allow"):
        if name in response.headers:
            shown.headers[name] = response.headers[name]
    return shown


def _know_caller() -> None:
    access = session.current()
    if access is not None:
        g.caller, g.scopes = access.caller, access.scopes
