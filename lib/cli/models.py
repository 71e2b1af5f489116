"""Several models from the options of one command."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from lib.cli.group import BadInput
from lib.cli.options import build, typed_fields


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
