"""Request bodies, query strings and path parameters, validated strictly: what is stored is what was sent."""

import json
import re
from typing import Annotated, Any, TypeVar

from flask import request
from pydantic import BaseModel, Field, ValidationError

from lib.validation import FieldError, JsonError, LateModel, field_errors, harmless, strict_json
from lib.web import auth
from lib.web.problems import Problem, from_validation, of_fields

M = TypeVar("M", bound=BaseModel)
IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class RevealQuery(LateModel):
    """Whether personal data is returned in clear."""

    reveal: bool = False


class TenantQuery(LateModel):
    """The tenant that a correlation id belongs to: by default that of the token, or `default`."""

    tenant_id: Annotated[str, Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})] | None = None


def read_body(model: type[M], *, optional: bool = False) -> M:
    """Return the request's body as `model`. `optional`: an empty body means all defaults.

    Raises:
        Problem: 400 if it is not JSON, 415 for another content type, 422 for an invalid field.
    """
    return validated(model, json_body(optional=optional))


def json_body(*, optional: bool = False) -> Any:
    """Return the request's body as plain JSON.

    Raises:
        Problem: 400 and 415, as `read_body`.
    """
    raw = request.get_data()
    if not raw and optional:
        return {}
    if request.mimetype != "application/json":
        raise Problem(415, "send JSON", detail="Content-Type must be application/json")
    try:
        return strict_json(raw)
    except JsonError as error:
        raise Problem(400, "the body is not valid JSON", detail=str(error), field=error.field) from None


def validated(model: type[M], value: Any) -> M:
    """Return plain JSON as `model`.

    Raises:
        Problem: 422 for an invalid field.
    """
    try:
        return model.model_validate_json(json.dumps(value, ensure_ascii=False))
    except ValidationError as error:
        raise from_validation(error, model) from None


def read_query(*models: type[BaseModel]) -> list[Any]:
    """Return the query string as these models, each with the parameters that it has fields for.

    Raises:
        Problem: 422 for a parameter that is invalid, given twice, or a field of none of them; 403 for personal data in
        clear without the scope admin.
    """
    given = {}
    for name, values in request.args.to_dict(flat=False).items():
        if len(values) > 1:
            raise Problem(422, "the query is not valid", detail=f"{name} is given twice", field=name)
        given[name] = values[0]
    return query_as(given, *models)


def query_as(given: dict[str, str], *models: type[BaseModel]) -> list[Any]:
    """Return these parameters of a query string as `read_query` does.

    Raises:
        Problem: 422 and 403, as `read_query`.
    """
    given = dict(given)
    read = []
    errors: list[FieldError] = []
    for model in models:
        own = {name: given.pop(name) for name in list(given) if name in model.model_fields}
        try:
            read.append(model.model_validate_strings(own, strict=False))
        except ValidationError as error:
            errors += field_errors(error)
    if given:
        from lib.validation.predicates import unknown

        names = [name for model in models for name in model.model_fields]
        errors += [(harmless(name), unknown(name, names)) for name in sorted(given)]
    if errors:
        raise of_fields(errors, what="query")
    if any(getattr(each, "reveal", False) for each in read):
        auth.require("admin")
    return read


def idempotency_key() -> str | None:
    """Return the request's `Idempotency-Key`, None without one.

    Raises:
        Problem: 400 unless it is 1 to 255 visible ASCII characters.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise Problem(
            400, "the Idempotency-Key is not valid", detail="1 to 255 visible ASCII characters", field="Idempotency-Key"
        )
    return key


def path_id(number: int, *, name: str, missing: str) -> int:
    """Return a number of the path that the database can hold. `missing`: the title, with the number at `{}`.

    Raises:
        Problem: 404 for any other number: nothing has it.
    """
    if not 1 <= number < 2**63:
        raise Problem(404, missing.format(str(number)[:30]), field=name)
    return number


def refuse_nul(*texts: str, title: str = "an id cannot hold a NUL character") -> None:
    """Refuse text of the path or the query that Postgres cannot hold.

    Raises:
        Problem: 400 with this title.
    """
    if any("\x00" in text for text in texts):
        raise Problem(400, title)
