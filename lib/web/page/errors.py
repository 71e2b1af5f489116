"""Problems as pages: the same sentences as the API has, with the way back."""

from flask import Response, request

from lib.web.page import render

_PROBLEM = "application/problem+json"


def as_page(response: Response) -> Response:
    """Return the page of a problem; any other response as it is. A poll goes on from it: the trouble may end."""
    if response.content_type != _PROBLEM:
        return response
    problem = response.get_json()
    shown = render.page("problem.html", status=response.status_code, problem=problem, again=request.method == "GET")
    for name in ("Retry-After", "Allow"):
        if name in response.headers:
            shown.headers[name] = response.headers[name]
    return shown
