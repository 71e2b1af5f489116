"""Problems as pages: the same sentences as the API has, with the way back."""

from contextlib import suppress

from flask import Response, g, request

from lib.errors import StoreError
from lib.web.page import actions, render, session
from lib.web.problems import Problem

_PROBLEM = "application/problem+json"


def as_page(response: Response) -> Response:
    """Return the page of a problem; any other response as it is. A poll goes on from it: the trouble may end."""
    if response.content_type != _PROBLEM:
        return response
    if "caller" not in g:  # no view has begun, as with an unknown address: the menu shows what the session may see
        with suppress(Problem, StoreError):
            know_caller()
    problem = response.get_json()
    address, words = _way_on(response.status_code)
    shown = render.page("problem.html", status=response.status_code, problem=problem, address=address, words=words)
    for name in ("Retry-After", "Allow"):
        if name in response.headers:
            shown.headers[name] = response.headers[name]
    return shown


def know_caller() -> None:
    """Note what the session's token may do, which a view does by itself."""
    access = session.current()
    if access is not None:
        g.caller, g.scopes = access.caller, access.scopes


def _way_on(status: int) -> tuple[str, str]:
    """Return an address that is not the same problem again, and the words of the link to it."""
    if request.method == "GET" and status not in (403, 404):
        return request.full_path.rstrip("?"), "Try again"
    # A form that is too large is not read again.
    if request.method == "POST" and status != 413 and (address := actions.back("")):
        return address, "Back"
    name, address = render.first_page()
    return address, "Back to the first screen" if address == "/" else f"Go to {name}"
