"""Reads JSON bodies: strictly, so that what is stored is what was sent."""

import json
from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel, ValidationError

from lib.web.problems import Problem, from_validation

M = TypeVar("M", bound=BaseModel)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("an object names a field twice")
    return dict(pairs)


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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
        found = json.loads(raw.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
        # Lone surrogates pass as escapes and cannot be stored; writing them out finds them.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _reason(error)
        raise Problem(400, "the body is not valid JSON", detail=reason) from None
    return found


def checked(model: type[M], found: Any) -> M:
    """Plain JSON as `model`."""
    try:
        return model.model_validate_json(json.dumps(found, ensure_ascii=False))
    except ValidationError as error:
        raise from_validation(error) from None


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return "it holds text that is not valid Unicode" if isinstance(error, UnicodeError) else str(error)
