"""What people type, checked by the models that check the API: options are made of them, so the two cannot drift."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import click
from pydantic import BaseModel, TypeAdapter, ValidationError

from lib.cli.group import BadInput
from lib.validation import UNSAFE, Identifier, JsonError, field_errors, strict_json

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_Command = Callable[..., Any]

# Shorter names beside those of the API.
_ALIASES = {"tenant_id": "--tenant", "correlation_id": "--flow"}

_HELP = {
    "status": "queued, running, completed, error or cancelled.",
    "stage": "Of this stage.",
    "circuit": "That hang on this circuit.",
    "tenant_id": "Of this tenant.",
    "correlation_id": "Of this flow.",
    "error": "With this in their last error, in any case.",
    "created_after": "Created at this time or later, like 2026-01-31T12:00:00Z.",
    "created_before": "Created before this time.",
    "limit": "At most so many.",
    "older": "The page of jobs older than this id.",
    "newer": "The page of jobs newer than this id.",
    "all": "Every dead letter: what an empty filter would mean.",
    "dry_run": "Count, and change nothing.",
    "slowly": "The first one alone, at once; unless it completes nothing else is touched; then the rest at a rate.",
    "per_minute": "The rate of --slowly (10).",
    "after": "Go on behind this id.",
    "dedup_key": "Tells several jobs of one stage in a flow apart.",
    "payload": "JSON, or @FILE, or @- for standard input.",
    "max_attempts": "Attempts in all (the policy of the stage).",
    "semantics": "at_least_once or at_most_once.",
    "ttr_seconds": "Time one attempt may take.",
    "retry_delays": "Seconds after each attempt, like 30,60,120 (the policy of the stage).",
    "scheduled_at": "Not before this time, like 2026-01-31T12:00:00Z.",
    "delay_seconds": "Not before so many seconds from now.",
    "day": "Of this day in UTC, like 2026-01-31.",
}


class _Text(click.ParamType[str]):
    """Without what no terminal, header or database takes."""

    name = "text"

    def __init__(self, *, may_be_empty: bool = True) -> None:
        self._may_be_empty = may_be_empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not isinstance(value, str) or UNSAFE.search(value):
            self.fail("it holds a control character or half a character", param, ctx)
        if not (value or self._may_be_empty):
            self.fail("it is empty", param, ctx)
        return value


class _Id(click.ParamType[int]):
    """What the database gives things as their number."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) < 2**63):
            self.fail(f"{text[:30]!r} is no id", param, ctx)
        return int(text)


class _Seconds(click.FloatRange):
    """A range lets NaN pass: it is neither below nor above."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail("it is not a number", param, ctx)
        return number


class _File(click.File):
    """A text file; whatever is wrong with its name is said like everything else."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except ValueError:  # a NUL in the name
            self.fail("it is no name of a file", param, ctx)


TEXT = _Text()
NAME = _Text(may_be_empty=False)
FILE = _File("r", encoding="utf-8-sig")
ID = _Id()


def seconds(most: float) -> click.ParamType[float]:
    """More than 0 and up to `most`."""
    return _Seconds(0, most, min_open=True)


def options_of(
    *models: type[BaseModel], skip: tuple[str, ...] = (), words: Mapping[str, str] = _HELP
) -> Callable[[_Command], _Command]:
    """One option for each field: `created_before` is --created-before. What is not typed is not handed over."""

    def wrap(command: _Command) -> _Command:
        names = [(model, name) for model in models for name in model.model_fields if name not in skip]
        for model, name in reversed(names):
            kind: dict[str, Any] = {"type": str if name == "payload" else TEXT}
            if model.model_fields[name].annotation is bool:
                kind = {"is_flag": True}
            flags = [_flag(name), *filter(None, [_ALIASES.get(name)])]
            command = click.option(*flags, name, help=words.get(name), metavar=_choices(model, name), **kind)(command)
        return command

    return wrap


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _choices(model: type[BaseModel], name: str) -> str | None:
    """The words that a field allows, where they are few."""
    kind = model.model_fields[name].annotation
    words = [word for part in (kind, *get_args(kind)) for word in get_args(part) if isinstance(word, str)]
    return "|".join(words) or None


def given(model: type[BaseModel], typed: dict[str, Any]) -> dict[str, Any]:
    """Of what was typed, what belongs to this model."""
    return {name: typed[name] for name in model.model_fields if typed.get(name) not in (None, False)}


def made(model: type[M], values: dict[str, Any]) -> M:
    """The model of what was typed.

    Raises:
        BadInput: the first option at fault, by its name.
    """
    try:
        return model.model_validate(values, strict=False)
    except ValidationError as error:
        raise _at_fault(error, named=_flag) from None


def made_of_json(model: type[M], found: Any) -> M:
    """The model of plain JSON, checked as strictly as the API does."""
    try:
        return model.model_validate_json(json.dumps(found))
    except ValidationError as error:
        raise _at_fault(error, named=str) from None


def identifier(text: str, *, name: str) -> str:
    """A tenant's or a flow's name."""
    try:
        return TypeAdapter(Identifier).validate_python(text)
    except ValidationError as error:
        raise BadInput(f"{name}: {field_errors(error)[0][1]}") from None


def _at_fault(error: ValidationError, *, named: Callable[[str], str]) -> BadInput:
    field, words = field_errors(error)[0]
    return BadInput(f"{named(field)}: {words}" if field else words)


def payload(text: str, *, name: str = "--payload") -> Any:
    """JSON as it was typed, or of the file that `@name` names."""
    if not text.startswith("@"):
        return parsed(text, what=name)
    # The context closes it, unless it is standard input.
    return parsed(read(FILE.convert(text[1:], None, click.get_current_context())), what=name)


def read(file: Any) -> str:
    """All of a text file."""
    try:
        text: str = file.read()
    except UnicodeError:
        raise BadInput("the file is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}") from None
    return text


def parsed(text: str, *, what: str) -> Any:
    """Strict JSON that a person typed or a file holds; `what` names it in the error."""
    try:
        return strict_json(text)
    except JsonError as error:
        raise BadInput(f"{what} is not valid JSON: {error}") from None
