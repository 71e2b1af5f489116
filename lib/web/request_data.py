"""Reads JSON bodies: strictly, so that what is stored is what was sent."""

import json
from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel, ValidationError

from lib.validation import JsonError, strict_json
from lib.web.problems import Problem, from_validation

M = TypeVar("M", bound=BaseModel)


def read(model: type[M], *, optional: bool = False) -> M:
    """The request's body as `model`. `optional`: no body at all means all defaults.

    Raises:
        Problem: 400 for what is not JSON, 415 for another content type, 422 for a field at fault.
    """
    return checked(model, value(optional=optional))


def value(*, optional: bool = False) -> Any:
    """The request's body as plain JSON; see `read`."""
    raw = request.get_data()
    if not raw and optional:
        return {}
    if request.mimetype != "application/json":
        raise Problem(415, "send JSON", detail="Content-Type must be application/json")
    try:
        return strict_json(raw)
    except JsonError as error:
        raise Problem(400, "the body is not valid JSON", detail=str(error), field=error.field) from None


def checked(model: type[M], found: Any) -> M:
    """Plain JSON as `model`."""
    try:
        return model.model_validate_json(json.dumps(found, ensure_ascii=False))
    except ValidationError as error:
        raise from_validation(error) from None
