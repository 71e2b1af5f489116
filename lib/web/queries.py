"""Reads query strings as strictly as bodies."""

from typing import Annotated, Any

from flask import request
from pydantic import BaseModel, Field, ValidationError

from lib.web.problems import Problem, from_validation


class Reveal(BaseModel):
    """Whether personal data is shown in clear."""

    reveal: bool = False


class Latest(BaseModel):
    """How many, from the newest on."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10


class OfTenant(BaseModel):
    """Whose it is."""

    tenant_id: Annotated[str, Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})] = "default"


def query(*models: type[BaseModel]) -> list[Any]:
    """The query string, shared out among models.

    Raises:
        Problem: 422 for a parameter that is wrong, given twice, or known to none of them.
    """
    given = {}
    for name, values in request.args.to_dict(flat=False).items():
        if len(values) > 1:
            raise Problem(422, "the query is not valid", detail=f"{name} is given twice", field=name)
        given[name] = values[0]
    made = []
    for model in models:
        own = {name: given.pop(name) for name in list(given) if name in model.model_fields}
        try:
            made.append(model.model_validate_strings(own, strict=False))
        except ValidationError as error:
            raise from_validation(error, what="query") from None
    unknown = sorted(given)
    if unknown:
        name = unknown[0]
        raise Problem(422, "the query is not valid", detail=f"there is no parameter {name[:50]}", field=name[:50])
    return made
