"""Filters in the address of a list: read, refused beside their field, and written again."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from flask import redirect, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ValidationError

from lib.validation import field_errors
from lib.web.request_data import query_as

M = TypeVar("M", bound=BaseModel)

# As the fields for dates and times of a browser send them. They are labelled as UTC.
_WITHOUT_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?", re.ASCII)


def without_empty_fields() -> ResponseReturnValue | None:
    """Return a redirect to this address without its empty fields; None: it has none."""
    given = [(name, value.strip()) for name, value in request.args.items(multi=True)]
    if all(value for _, value in given):
        return None
    return redirect(address(request.path, {name: value for name, value in given if value}), 303)


def read(model: type[M], given: Mapping[str, str]) -> tuple[M, dict[str, str]]:
    """Return the fields of `given` as `model`, and what is wrong with each: then the model has none of them."""
    own = {name: with_zone(value) for name, value in given.items() if name in model.model_fields and value}
    try:
        return model.model_validate_strings(own, strict=False), {}
    except ValidationError as error:
        wrong: dict[str, str] = {}
        for field, message in field_errors(error, model):
            wrong.setdefault(field, message)
        return model(), wrong


def strictly(*models: type[BaseModel]) -> list[Any]:
    """Return the query as these models. Fields that a form left empty count as left out.

    Raises:
        Problem: 422 for an invalid parameter.
    """
    return query_as({name: with_zone(value) for name, value in request.args.items() if value}, *models)


def here(**changes: str | int | None) -> str:
    """Return the address of this page with changes of its query; None removes a parameter."""
    changed = {name: value for name, value in (request.args.to_dict() | changes).items() if value not in (None, "")}
    return address(quote(request.path), changed)


def with_zone(value: str) -> str:
    """Return a time of a form as RFC 3339 in UTC; any other text as it is."""
    found = _WITHOUT_ZONE.fullmatch(value)
    if not found:
        return value
    return f"{value}Z" if found[1] else f"{value}:00Z"


def for_field(value: str) -> str:
    """Return a time as a field for dates and times has it, in UTC; any other text as it is."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError):
        return value


def address(path: str, fields: Mapping[str, Any]) -> str:
    """Return an address with the fields that are given."""
    given = {name: value for name, value in fields.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
