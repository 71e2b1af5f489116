"""What is wrong with a field, as a predicate: "is required", "must be at most 100". One for each of pydantic's errors.

None repeats the input, and none prints a pattern: a model defines what it expects (`lib.validation.matching`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

# The context of an error, with `input`, which no predicate repeats.
Detail = Mapping[str, Any]

_NOT_ALLOWED = "is not valid"
_WHOLE_NUMBER = "must be a whole number"
_NUMBER = "must be a number"
_TEXT = "must be text"
_LIST = "must be a list"
_OBJECT = "must be an object"
_BOOLEAN = "must be true or false"
_DATE = "must be a date like 2026-12-24"
_TIME = "must be a time like 18:00:00"
_MOMENT = "must be a time with a zone, like 2026-12-24T18:00:00+01:00"
_DURATION = "must be a duration like PT30M"
_URL = "must be a URL like https://shop.example/path"
_UUID = "must be a UUID"
_FRACTION = "must be a fraction like 1/3"
_COMPLEX = "must be a complex number"


def field_errors_of(error: ValidationError, model: Any = None) -> Iterator[tuple[list[str], str]]:
    """Yield the path of each wrong field, and its predicate. `model`: what was validated, as far as it is known."""
    for detail in error.errors(include_url=False):
        path = [str(part) for part in detail["loc"]]
        if detail["type"] == "extra_forbidden":
            yield path, unknown(path[-1], _names(model, path[:-1]))
        else:
            yield path, predicate(detail)


def _names(model: Any, path: list[str]) -> list[str]:
    """Return the fields that the model has at a path."""
    for part in path:
        field = model.model_fields.get(part) if model else None
        if field:
            model = _model_in(field.annotation)
        elif not part.isdigit():
            return []
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> Any:
    """Return the model of a type such as `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def predicate(error: Mapping[str, Any]) -> str:
    """Return what is wrong, for one of the details of a ValidationError (with its input)."""
    found = _PREDICATES.get(error["type"])
    if found is None:  # of a validator of the stage's author, with a type and a sentence of its own
        return str(error["msg"]) if error["type"] not in IMPOSSIBLE else _NOT_ALLOWED
    return found if isinstance(found, str) else found(error.get("ctx", {}) | {"input": error.get("input")})


def unknown(name: str, names: Iterable[str]) -> str:
    """Return that a field is unknown, with the closest of those that exist."""
    return f"is unknown{closest(name, names)}"


def closest(name: object, names: Iterable[str]) -> str:
    """Return the closest names as the end of a sentence, or nothing."""
    close = get_close_matches(name, list(names)) if isinstance(name, str) else []
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _bound(relation: str, name: str) -> Callable[[Detail], str]:
    return lambda detail: f"must be {relation} {_number(detail[name])}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _size(relation: str, name: str, unit: tuple[str, str] | None = None) -> Callable[[Detail], str]:
    return lambda detail: f"must have {relation} {_count(detail[name], *(unit or _unit_of(detail['input'])))}"


def _unit_of(value: object) -> tuple[str, str]:
    # Bounds beside a validator are checked apart from its type, with the same error for text and lists.
    kinds = ((str, _CHARACTERS), (bytes, _BYTES), (Mapping, _FIELDS))
    return next((unit for kind, unit in kinds if isinstance(value, kind)), _ENTRIES)


_CHARACTERS, _BYTES, _FIELDS = ("character", "characters"), ("byte", "bytes"), ("field", "fields")
_ENTRIES, _DIGITS = ("entry", "entries"), ("digit", "digits")
_PLACES, _WHOLE_DIGITS = ("decimal place", "decimal places"), ("digit before the point", "digits before the point")


def _words(detail: Detail) -> str:
    """Read pydantic's list, like "'daily', 'weekly' or 'monthly'"."""
    text = str(detail["expected"])
    words = re.findall("'([^']*)'", text) or text.replace(" or ", ", ").split(", ")
    expected = f"must be one of {', '.join(words)}" if len(words) > 1 else f"must be {words[0]}"
    return expected + closest(detail["input"], words)


def _bare(quoted: object) -> str:
    return str(quoted).replace("'", "")


def _tags(detail: Detail) -> str:
    return f"must have a {_bare(detail['discriminator'])} that is one of {_bare(detail['expected_tags'])}"


def _own(detail: Detail) -> str:
    return str(detail.get("error") or "") or _NOT_ALLOWED


_PREDICATES: dict[str, str | Callable[[Detail], str]] = {
    "missing": "is required",
    "extra_forbidden": "is unknown",
    "none_required": "must be null",
    # Validators of our own: their sentences are predicates.
    "value_error": _own,
    "assertion_error": _own,
    # Numbers
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE_NUMBER),
    "int_parsing_size": "has too many digits",
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing"), _NUMBER),
    "finite_number": "must be a finite number",
    "greater_than": _bound("above", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("below", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "multiple_of": _bound("a multiple of", "multiple_of"),
    "decimal_max_digits": _size("at most", "max_digits", _DIGITS),
    "decimal_max_places": _size("at most", "decimal_places", _PLACES),
    "decimal_whole_digits": _size("at most", "whole_digits", _WHOLE_DIGITS),
    **dict.fromkeys(("fraction_type", "fraction_parsing"), _FRACTION),
    **dict.fromkeys(("complex_type", "complex_str_parsing"), _COMPLEX),
    **dict.fromkeys(("bool_type", "bool_parsing"), _BOOLEAN),
    # Words
    "literal_error": _words,
    "enum": _words,
    "union_tag_invalid": _tags,
    "union_tag_not_found": lambda detail: f"must have a {_bare(detail['discriminator'])}",
    # Text
    "string_type": _TEXT,
    "string_unicode": "must be UTF-8 text",
    "string_too_short": _size("at least", "min_length", _CHARACTERS),
    "string_too_long": _size("at most", "max_length", _CHARACTERS),
    "string_pattern_mismatch": "does not have the form that is expected here",
    "string_not_ascii": "must have only ASCII characters",
    "bytes_type": _TEXT,
    "bytes_too_short": _size("at least", "min_length", _BYTES),
    "bytes_too_long": _size("at most", "max_length", _BYTES),
    "bytes_invalid_encoding": "does not have the encoding that is expected here",
    "json_type": "must be JSON as text",
    "json_invalid": "must be JSON as text",
    **dict.fromkeys(("url_type", "url_parsing", "url_syntax_violation"), _URL),
    "url_too_long": _size("at most", "max_length", _CHARACTERS),
    "url_scheme": lambda detail: (
        f"must be a URL that begins with {str(detail['expected_schemes']).replace(chr(39), '')}"
    ),
    **dict.fromkeys(("uuid_type", "uuid_parsing"), _UUID),
    "uuid_version": lambda detail: f"must be a UUID of version {detail['expected_version']}",
    # Lists and objects
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type"), _LIST),
    "set_item_not_hashable": "must not be a list or an object",
    "too_short": _size("at least", "min_length"),
    "too_long": _size("at most", "max_length"),
    "recursion_loop": "is nested too deeply",
    "recursion_depth_exceeded": "is nested too deeply",
    "invalid_key": "must have names that are text",
    **dict.fromkeys(("dict_type", "frozen_dict_type", "ordered_dict_type", "counter_type", "mapping_type"), _OBJECT),
    **dict.fromkeys(("model_type", "dataclass_type", "named_tuple_type", "model_attributes_type"), _OBJECT),
    **dict.fromkeys(("missing_argument", "missing_keyword_only_argument"), "is required"),
    "missing_positional_only_argument": "is required",
    **dict.fromkeys(("unexpected_keyword_argument", "unexpected_positional_argument"), "is unknown"),
    # Times
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"), _DATE),
    **dict.fromkeys(("date_past", "datetime_past"), "must be in the past"),
    **dict.fromkeys(("date_future", "datetime_future"), "must be in the future"),
    **dict.fromkeys(("time_type", "time_parsing"), _TIME),
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_object_invalid"), _MOMENT),
    **dict.fromkeys(("datetime_from_date_parsing", "timezone_aware", "timezone_offset"), _MOMENT),
    "timezone_naive": "must be a time without a zone",
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), _DURATION),
}

# Errors that JSON and text cannot raise: they are about Python's objects and about how code is called.
IMPOSSIBLE = frozenset(
    {
        *("no_such_attribute", "get_attribute_error", "needs_python_object", "frozen_field", "frozen_instance"),
        *("dataclass_exact_type", "default_factory_not_called", "iteration_error", "missing_sentinel_error"),
        *("ellipsis_error", "is_instance_of", "is_subclass_of", "callable_type", "arguments_type"),
        "multiple_argument_values",
    }
)
