"""Parameter types, options generated from the API's models so that the two cannot drift, and JSON input."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem
from pydantic import BaseModel, ValidationError

from lib.cli.group import BadInput
from lib.cli.help_texts import FIELDS
from lib.giftcards.orders import MAX_AMOUNT
from lib.validation import UNSAFE, JsonError, error_sentence, field_errors, strict_json

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")
_Command = Callable[..., Any]

# Shorter names beside those of the API.
_ALIASES = {"tenant_id": "--tenant", "correlation_id": "--flow"}

# The longest list of words in a help text: it has to fit into a narrow terminal.
_SHORT = 30


class _Named(click.ParamType[V]):
    """A value that can be a name: the shell completes those that exist."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from lib.cli.known import complete

        return complete(ctx, param, incomplete)


class _Text(_Named[str]):
    """Text without the characters that terminals, headers or the database refuse."""

    name = "text"

    def __init__(self, *, may_be_empty: bool = True) -> None:
        self._may_be_empty = may_be_empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not isinstance(value, str) or UNSAFE.search(value):
            self.fail("it contains a control character or an unpaired surrogate", param, ctx)
        if not (value or self._may_be_empty):
            self.fail("it is empty", param, ctx)
        return value


class _Words(_Text):
    """One of a few words. Which ones is left to the model, so that the error is the same everywhere."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class _Id(_Named[int]):
    """A positive 63-bit integer."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) < 2**63):
            self.fail(f"{text[:30]!r} is not an id", param, ctx)
        return int(text)


class _MinorUnits(click.ParamType[int]):
    """An amount as the API has it. 25.00 is refused, for it could be meant either way."""

    name = "minor units"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_AMOUNT):
            reason = f"is not a number of minor units from 0 to {MAX_AMOUNT}, like 2500 for $25.00"
            self.fail(f"{text[:30]!r} {reason}", param, ctx)
        return int(text)


class _Seconds(click.FloatRange):
    """A range without NaN, which is neither below nor above."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail("it is not a number", param, ctx)
        return number


class _File(click.File):
    """A file; an invalid name is a usage error like any other."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except ValueError:  # a NUL in the name
            self.fail("it is not a file name", param, ctx)


TEXT = _Text()
NAME = _Text(may_be_empty=False)
FILE = _File("r", encoding="utf-8-sig")
BYTES_FILE = _File("rb")
ID = _Id()
MINOR_UNITS = _MinorUnits()

yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
by_option = click.option("--by", type=TEXT, help="Name of the operator (default: your user name).")
reason_option = click.option("--reason", type=TEXT, help="Why. Recorded in the audit.")
reveal_option = click.option(
    "--reveal",
    is_flag=True,
    help="Show mail addresses and card numbers. Access is recorded in the audit log.",
)


def seconds(maximum: float) -> click.ParamType[float]:
    """Return the type of more than 0 and up to `maximum` seconds."""
    return _Seconds(0, maximum, min_open=True)


def options_of(
    *models: type[BaseModel], skip: tuple[str, ...] = (), help_texts: Mapping[str, str] = FIELDS
) -> Callable[[_Command], _Command]:
    """Add one option for each field: `created_before` is --created-before. Options that are not typed are None."""

    def wrap(command: _Command) -> _Command:
        names = [(model, name) for model in models for name in model.model_fields if name not in skip]
        for model, name in reversed(names):
            words = _choices(model, name)
            kind: dict[str, Any] = {"type": str if name == "payload" else _Words(words) if words else TEXT}
            if model.model_fields[name].annotation is bool:
                kind = {"is_flag": True}
            flags = [option_name(name), *filter(None, [_ALIASES.get(name)])]
            kind |= {"help": help_texts.get(name), "metavar": _metavar(words)}
            command = click.option(*flags, name, **kind)(command)
        return command

    return wrap


def option_name(field: str) -> str:
    """Return the option of a field."""
    return f"--{field.replace('_', '-')}"


def _metavar(words: list[str]) -> str | None:
    text = "|".join(words)
    return text if 0 < len(text) <= _SHORT else None


def _choices(model: type[BaseModel], name: str) -> list[str]:
    """Return the literals that a field allows."""
    kind = model.model_fields[name].annotation
    return [word for part in (kind, *get_args(kind)) for word in get_args(part) if isinstance(word, str)]


def typed_fields(model: type[BaseModel], options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model among the typed options."""
    return {name: options[name] for name in model.model_fields if options.get(name) not in (None, False)}


def build(model: type[M], values: dict[str, Any]) -> M:
    """Return the model of typed options.

    Raises:
        BadInput: names the invalid options.
    """
    try:
        return model.model_validate(values, strict=False)
    except ValidationError as error:
        raise _bad_input(error, model, name_of=option_name) from None


def build_from_json(model: type[M], value: Any) -> M:
    """Return the model of parsed JSON, validated as strictly as in the API.

    Raises:
        BadInput: names the invalid fields.
    """
    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise _bad_input(error, model, name_of=str) from None


def _bad_input(error: ValidationError, model: type[BaseModel], *, name_of: Callable[[str], str]) -> BadInput:
    named = [(field and name_of(field), text) for field, text in field_errors(error, model)]
    return BadInput(error_sentence(named))


def json_argument(text: str, *, name: str = "--payload") -> Any:
    """Return the JSON of an option's value: inline, or of the file that `@file` names."""
    if not text.startswith("@"):
        return parse_json(text, source=name)
    try:
        # Click closes the file with the context, unless it is standard input.
        file = FILE.convert(text[1:], None, click.get_current_context())
    except click.BadParameter as error:
        raise BadInput(f"{name}: cannot read {error.message}") from error
    return parse_json(read_text(file), source=name)


def read_text(file: Any) -> str:
    """Return the content of a text file.

    Raises:
        BadInput: it cannot be read, or is not UTF-8.
    """
    try:
        text: str = file.read()
    except UnicodeError:
        raise BadInput("the file is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}") from None
    return text


def parse_json(text: str, *, source: str) -> Any:
    """Parse strict JSON; `source` names it in the error."""
    try:
        return strict_json(text)
    except JsonError as error:
        raise BadInput(f"{source} is not valid JSON: {error}") from None
