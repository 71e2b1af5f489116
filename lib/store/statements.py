"""The statement of a call, and its arguments as libpq sends them: text, of the types that the function's have."""

import functools
import json
from collections.abc import Iterable
from datetime import date
from typing import Any

from psycopg import sql

from lib.errors import Refused

# Not pydantic_core's: it would accept values that json refuses (sets, dates, models), and one wire would differ.
_to_json = json.JSONEncoder(separators=(",", ":")).encode


@functools.cache
def statement(function: str, names: tuple[str, ...]) -> bytes:
    """Return the statement for a function and its argument names."""
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.SQL(f"${position}"))
        for position, name in enumerate(names, 1)
    )
    return sql.SQL("select to_json(public.{}({}))").format(sql.Identifier(function), arguments).as_bytes()


def encode(values: Iterable[Any]) -> list[bytes | None]:
    """Encode arguments: None as NULL, dicts and lists as JSON, tuples as arrays, anything else as its text.

    Raises:
        Refused: text that Postgres cannot hold.
        TypeError: a value of another type.
    """
    try:
        return [None if value is None else _text(value).encode() for value in values]
    except UnicodeEncodeError:
        raise Refused("text with an unpaired surrogate cannot be stored", sqlstate="22P02") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        if "\0" in value:  # libpq would end the text there
            raise Refused("text with a NUL (0x00) cannot be stored", sqlstate="22P05")
        return value
    if isinstance(value, dict | list):
        return _to_json(value)
    if isinstance(value, int | float):
        return str(value)  # as text: typed, a large number would select another overload
    if isinstance(value, tuple):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"a call takes no argument of type {type(value).__name__}")


def _element(value: Any) -> str:
    """Return an element of an array. Text is quoted; NULL is not, and would otherwise be the word."""
    if value is None:
        return "NULL"
    text = _text(value)
    return text if isinstance(value, tuple) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
