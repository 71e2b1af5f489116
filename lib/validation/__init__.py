"""Checks of what comes from outside: strict models, identifiers, times, safe text, JSON without surprises."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
)

MAX_ID_LENGTH = 200

# Control characters (Postgres refuses NUL, terminals obey the others), line separators, and halves of a character.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSAFE_IN_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The same as JSON Schema writes them: halves of a character are no text there.
_NOT_IN_LINE = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_NOT_IN_TEXT = r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029"

# As the database refuses them in payloads (supabase/schemas/10_jobs.sql).
_TOO_LARGE = 10**308

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


# What is wrong with a cursor that somebody made up.
NO_CURSOR = "is not a cursor that an earlier page gave"

# A field, and what is wrong with it.
FieldError = tuple[str, str]
# Errors that a sentence names; more are counted.
_NAMED = 10


class LateModel(BaseModel):
    """The base of models that are built when the first value is validated: a tick uses few of them."""

    model_config = ConfigDict(defer_build=True)


class StrictModel(LateModel):
    """The base of requests and payloads: no unknown fields, no conversion, no input repeated in errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def schema_hint(**keywords: str) -> Any:
    """Add keywords to the JSON Schema of a type, for what pydantic cannot derive."""
    return Field(json_schema_extra=dict(keywords))


class Matching(AfterValidator):
    """Require text that matches a pattern as a whole. `expected`: what an error has instead of the pattern."""

    pattern: str

    def __init__(self, pattern: str, expected: str) -> None:
        compiled = re.compile(pattern)

        def check(value: str) -> str:
            if not compiled.fullmatch(value):
                raise ValueError(expected)
            return value

        super().__init__(check)
        object.__setattr__(self, "pattern", pattern)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"pattern": self.pattern}


def _refuse(unsafe: re.Pattern[str], value: object) -> object:
    found = unsafe.search(value) if isinstance(value, str) else None
    if found:
        kind = "half a character (lone surrogate)" if found[0] >= "\ud800" else "a control character"
        raise ValueError(f"contains {kind}, U+{ord(found[0]):04X}")
    return value


def _moment(value: object) -> object:
    """RFC 3339 text → datetime. What is not text is left to pydantic."""
    if not isinstance(value, str):
        return value
    if not _RFC3339.fullmatch(value):
        raise ValueError("is not a time with a zone as in RFC 3339, like 2026-12-24T18:00:00+01:00")
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        raise ValueError("is no time of any calendar") from None


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("has no time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is no time of any calendar") from None


# One line; text with line breaks; a name that identifies something; a time.
Line = Annotated[str, BeforeValidator(partial(_refuse, UNSAFE)), StringConstraints(strip_whitespace=True)]
Text = Annotated[str, BeforeValidator(partial(_refuse, _UNSAFE_IN_TEXT)), schema_hint(pattern=f"^[^{_NOT_IN_TEXT}]*$")]
Identifier = Annotated[
    Line,
    Field(min_length=1, max_length=MAX_ID_LENGTH),
    schema_hint(pattern=f"^[^{_NOT_IN_LINE}]*[^{_NOT_IN_LINE}\\s][^{_NOT_IN_LINE}]*$"),
]
Name = Annotated[Line, Field(max_length=200), schema_hint(pattern=f"^[^{_NOT_IN_LINE}]*$")]
StageName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Matching(r"^[a-z][a-z0-9_]*$", "must be the name of a stage: lower-case letters, digits and _, like send_mail"),
]
# What the database numbers: jobs, schedules, endpoints.
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]
Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_utc)]


def field_errors(error: ValidationError, model: Any = None) -> list[FieldError]:
    """Return what is wrong as (field, message), in the order of the fields: `("customer.email", "is not a valid …")`.

    Fit for responses and logs: never the value, and only as much of an unknown field's name as is harmless. `model`:
    what was validated, for the closest names of unknown fields.
    """
    from lib.validation.predicates import field_errors_of  # only where something is wrong

    return [(".".join(map(harmless, path)), message) for path, message in field_errors_of(error, model)]


def error_sentence(errors: Sequence[FieldError], *, form: str = "{} {}") -> str:
    """Return errors as one sentence: "amount is required; email is not …". `form`: of a field and its message."""
    named = [form.format(field, message) if field else message for field, message in errors[:_NAMED]]
    more = [f"and {len(errors) - _NAMED} more"] if len(errors) > _NAMED else []
    return "; ".join(named + more)


def harmless(name: str) -> str:
    """Return a name that a caller made up as it may be shown."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", name)[:50]


class JsonError(ValueError):
    """What is not JSON, or could not be stored. `field`: its path, where it is known."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def strict_json(raw: bytes | str) -> Any:
    """Parse JSON without surprises: no field twice, no NaN, no integer beyond a double, no text that cannot be stored.

    Raises:
        JsonError: with the reason and, where it is known, the field.
    """
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        _check(value)
    except JsonError:
        raise
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except UnicodeError:
        raise JsonError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # such as an integer of more digits than Python reads
        raise JsonError(str(error)) from None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, content in pairs:
        if name in found:
            raise JsonError("an object names this field twice", field=harmless(name))
        found[name] = content
    return found


def _refuse_constant(name: str) -> Any:
    raise JsonError(f"{name} is not JSON")


def _check(value: Any, *path: str) -> None:
    """Lone surrogates pass as escapes, and cannot be stored. Long integers can, and then no client reads them."""
    if isinstance(value, dict):
        for name, content in value.items():
            _check(name, *path, name)
            _check(content, *path, name)
    elif isinstance(value, list):
        for index, content in enumerate(value):
            _check(content, *path, str(index))
    elif isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise JsonError("a number has more than 308 digits", field=".".join(map(harmless, path)))
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            path_text = ".".join(map(harmless, path))
            raise JsonError("it holds half a character (a lone surrogate)", field=path_text) from None


def is_storable(value: Any) -> bool:
    """Return whether a Python value is JSON that Postgres stores: no NaN, no NUL, no halves of characters."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return r"\u0000" not in text


def is_identifier(value: Any) -> bool:
    """Return whether a value can name something: text of 1 to 200 characters, without control characters."""
    return (
        isinstance(value, str) and len(value.strip()) > 0 and len(value) <= MAX_ID_LENGTH and not UNSAFE.search(value)
    )


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON. Python's == takes 1, 1.0 and True for equal."""
    return json.dumps(one) == json.dumps(other)
