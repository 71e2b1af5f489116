"""Addresses of lists: filters and cursors are in the query, so that a list can be kept, sent and reloaded."""

from typing import Any
from urllib.parse import quote, urlencode

from flask import request
from pydantic import BaseModel

from lib.web.request_data import query_as


def filters(*models: type[BaseModel], **given: str) -> list[Any]:
    """Return the query as these models; fields that a form left empty count as left out. `given`: other values.

    Raises:
        Problem: 422 for an invalid parameter.
    """
    return query_as({name: value for name, value in request.args.items() if value} | given, *models)


def here(**changes: str | int | None) -> str:
    """Return the address of this page with changes of its query; None removes a parameter."""
    query = {name: value for name, value in (request.args.to_dict() | changes).items() if value not in (None, "")}
    return f"{quote(request.path)}?{urlencode(query)}".rstrip("?")
