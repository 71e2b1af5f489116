"""Cron expressions, checked field by field and written out in numbers. A refusal names the field and what it takes."""

import re
from typing import NamedTuple

from lib.errors import Invalid


class _Field(NamedTuple):
    """What a field takes: numbers from `low` to `high`, of which `size` differ, or their names. `use`: in words."""

    name: str
    low: int
    high: int
    size: int
    use: str
    names: tuple[str, ...] = ()


_MONTHS = tuple("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split())
_DAYS = tuple("SUN MON TUE WED THU FRI SAT".split())
_FORMS = ", *, a list (1,5), a range (1-5) or a step (*/2)"
_L_AND_LW = ", or L (the last day) or LW (the last weekday)"
_NTH = ", or 5L (the last Friday) or 1#2 (the second Monday)"
_FIELDS = (
    _Field("seconds field", 0, 59, 60, f"0 to 59{_FORMS}"),
    _Field("minute", 0, 59, 60, f"0 to 59{_FORMS}"),
    _Field("hour", 0, 23, 24, f"0 to 23{_FORMS}"),
    _Field("day of the month", 1, 31, 31, f"1 to 31{_FORMS}{_L_AND_LW}"),
    _Field("month", 1, 12, 12, f"1 to 12 or JAN to DEC{_FORMS}", _MONTHS),
    _Field("day of the week", 0, 7, 7, f"0 to 7 (0 and 7 are Sunday) or SUN to SAT{_FORMS}{_NTH}", _DAYS),
)
_DAY_OF_MONTH, _DAY_OF_WEEK = _FIELDS[3], _FIELDS[5]
_USE_FIELDS = "use five fields (minute, hour, day of the month, month, day of the week), or six with seconds first"
_AT_WORDS = {
    "@HOURLY": "0 * * * *", "@DAILY": "0 0 * * *", "@MIDNIGHT": "0 0 * * *", "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *", "@YEARLY": "0 0 1 1 *", "@ANNUALLY": "0 0 1 1 *",
}  # fmt: skip
_ITEM = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/([0-9]+))?", re.ASCII)
_NTH_DAY = re.compile(r"([A-Z]{3}|[0-9]{1,2})(L|#[1-5])")
# What other schedulers have.
_FOREIGN = (
    (re.compile(r"\?.*"), "cannot be ?: use *"),
    (re.compile(r"[HR]([(/~].*)?"), "cannot be chosen at random: set a number"),
    (re.compile(r"[0-9]+W"), "cannot be the weekday nearest to a date: use LW for the last weekday of the month"),
)


def written_out(expression: str) -> list[str]:
    """Return the six fields of an expression, seconds first, without names and ranges: `*`, steps of `*`, and lists.

    Raises:
        Invalid: a field is not valid. `0 0 31 2 *` is, although no date matches it.
    """
    parts = expression.upper().split()
    if parts and parts[0].startswith("@"):
        use = _AT_WORDS.get(" ".join(parts), "fields, like */5 * * * * for every five minutes")
        raise Invalid(f"an expression cannot be a word with @: use {use}", field="schedule")
    if len(parts) not in (5, 6):
        fields = f"{len(parts)} field{'' if len(parts) == 1 else 's'}"
        raise Invalid(f"the expression has {fields}: {_USE_FIELDS}", field="schedule")
    if len(parts) == 5:
        parts.insert(0, "0")
    return [
        ",".join(_item(field, item) for item in part.split(",")) for field, part in zip(_FIELDS, parts, strict=True)
    ]


def _item(field: _Field, item: str) -> str:
    """Return an item of a field's list, written out."""
    if field is _DAY_OF_MONTH and item in ("L", "LW"):
        return item
    if field is _DAY_OF_WEEK and (nth := _NTH_DAY.fullmatch(item)):
        return f"{_number(field, nth[1], item)}{nth[2]}"
    match = _ITEM.fullmatch(item)
    if not match:
        raise _refusal(field, item)
    every, first, last, step = match.groups()
    if step and not 1 <= int(step) <= field.size:
        raise Invalid(
            f"the {field.name} cannot have this step: use 1 to {field.size}, like */{field.size // 2}", field="schedule"
        )
    if every:
        return item
    start = _number(field, first, item)
    end = _number(field, last, item) if last else field.high if step else start
    if end < start:  # it wraps, like FRI-SUN
        end += field.size
    numbers = range(start, end + 1, int(step or 1))
    return ",".join(str((number - field.low) % field.size + field.low) for number in numbers)


def _number(field: _Field, text: str, item: str) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise _refusal(field, item)
    return int(text)


def _refusal(field: _Field, item: str) -> Invalid:
    reasons = (reason for pattern, reason in _FOREIGN if pattern.fullmatch(item))
    reason = next(reasons, f"is not valid: use {field.use}")
    return Invalid(f"the {field.name} {reason}", field="schedule")
