"""Reads JSON bodies: strictly, so that what is stored is what was sent."""

import json
from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel, ValidationError

from lib.validation import harmless
from lib.web.problems import Problem, from_validation

M = TypeVar("M", bound=BaseModel)


class _Fault(ValueError):
    """What is wrong with a body that could be read so far, and where."""

    def __init__(self, said: str, *, field: str) -> None:
        super().__init__(said)
        self.field = field


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, content in pairs:
        if name in found:
            raise _Fault("an object names this field twice", field=harmless(name))
        found[name] = content
    return found


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
        _check_text(found)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _reason(error)
        field = getattr(error, "field", None)
        raise Problem(400, "the body is not valid JSON", detail=reason, field=field) from None
    return found


def checked(model: type[M], found: Any) -> M:
    """Plain JSON as `model`."""
    try:
        return model.model_validate_json(json.dumps(found, ensure_ascii=False))
    except ValidationError as error:
        raise from_validation(error) from None


def _check_text(found: Any, *path: str) -> None:
    """Lone surrogates pass as escapes, and cannot be stored."""
    if isinstance(found, dict):
        for name, content in found.items():
            _check_text(name, *path, name)
            _check_text(content, *path, name)
    elif isinstance(found, list):
        for place, content in enumerate(found):
            _check_text(content, *path, str(place))
    elif isinstance(found, str):
        try:
            found.encode()
        except UnicodeEncodeError:
            raise _Fault("it holds half a character (a lone surrogate)", field=".".join(map(harmless, path))) from None


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return "it is not UTF-8" if isinstance(error, UnicodeError) else str(error)
