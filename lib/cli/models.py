"""Several models or identifiers from the options of one command: an error names all that are wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from lib.cli.group import BadInput
from lib.cli.options import build, typed_fields
from lib.validation import Identifier, field_errors


def build_each(models: Sequence[type[BaseModel]], options: dict[str, Any]) -> list[Any]:
    """Return the models, each of the typed options that it has fields for.

    Raises:
        BadInput: names the invalid options of all models.
    """
    built, problems = [], []
    for model in models:
        try:
            built.append(build(model, typed_fields(model, options)))
        except BadInput as error:
            problems.append(error.message)
    if problems:
        raise BadInput("; ".join(problems))
    return built


def identifiers(texts: Mapping[str, str]) -> list[str]:
    """Return valid tenant ids and correlation ids. `texts`: by the name of the option or argument.

    Raises:
        BadInput: names each option or argument that is invalid.
    """
    found, problems = [], []
    for name, text in texts.items():
        try:
            found.append(TypeAdapter(Identifier).validate_python(text))
        except ValidationError as error:
            problems.append(f"{name} {field_errors(error)[0][1]}")
    if problems:
        raise BadInput("; ".join(problems))
    return found
