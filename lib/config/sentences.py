"""The sentence of a value that is none of its kind: what is expected instead, with an example, without the value."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo


def sentence(error: Mapping[str, Any], field: FieldInfo) -> str:
    """Return what is wrong with a field. `error`: one of pydantic's."""
    if error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    position = error["loc"][1:2]
    which = f", and item {position[0] + 1} is none" if position and isinstance(position[0], int) else ""
    return expected(field) + which


def expected(field: FieldInfo) -> str:
    """Return what a field of numbers, a switch or a choice must be, with an example: its default or a common value."""
    kind, bounds = _unwrapped(field.annotation, list(field.metadata))
    if get_origin(kind) is Literal:
        *others, last = get_args(kind)
        return f"must be {', '.join(others)} or {last}"
    if kind is bool:
        return "must be 1 or 0"
    if get_origin(kind) is tuple:
        kind, bounds = _unwrapped(get_args(kind)[0], [])
        return f"must be comma-separated numbers, each {_range(bounds)}, like 30,60,120"
    example = field.default if isinstance(field.default, int | float) else min(5, bounds.get("le", 5))
    what = "a whole number" if kind is int else "a number"
    return f"must be {what} {_range(bounds)}, like {example:g}"


def _unwrapped(annotation: Any, metadata: list[Any]) -> tuple[Any, dict[str, float]]:
    """Return the type behind Annotated and None, and its bounds: `ge`, `gt`, `le`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += more
        elif type(None) in get_args(annotation):
            annotation = next(one for one in get_args(annotation) if one is not type(None))
        else:
            break
    found = [inner for one in metadata for inner in (one.metadata if isinstance(one, FieldInfo) else [one])]
    return annotation, {
        name: getattr(one, name) for one in found for name in ("ge", "gt", "le") if getattr(one, name, None) is not None
    }


def _range(bounds: Mapping[str, float]) -> str:
    least = f"above {bounds['gt']:g} and up" if "gt" in bounds else f"from {bounds['ge']:g}"
    return f"{least} to {int(bounds['le'])}"
