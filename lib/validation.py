"""What is wrong with a value, in words fit for answers and logs."""

import re

from pydantic import ValidationError

# Control characters and halves of a character: harmless nowhere.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """What is wrong, as (field, words) in the order of the fields: `("customer.email", "is not a valid …")`.

    Fit for answers and logs: never the value, and only as much of an unknown field's name as is harmless.
    """
    details = error.errors(include_url=False, include_input=False)
    return [(_field(detail["loc"]), detail["msg"].removeprefix("Value error, ")) for detail in details]


def harmless(name: str) -> str:
    """A name that a caller made up, as it may be shown."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", name)[:50]


def _field(path: tuple[int | str, ...]) -> str:
    return ".".join(harmless(str(part)) for part in path)
