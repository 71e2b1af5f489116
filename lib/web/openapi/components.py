"""The components of the OpenAPI document: schemas and security schemes."""

import functools
from collections.abc import Mapping
from typing import Any, Literal

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from lib.web.openapi.operation import Model
from lib.web.openapi.operations import OPERATIONS, PUBLIC_NAMES
from lib.web.openapi.responses.base import Problem

Json = dict[str, Any]

_SCHEMAS = "#/components/schemas/"


class _Untitled(GenerateJsonSchema):
    """Omits titles that only repeat the names of fields: client generators turn them into class names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def security_schemes() -> dict[str, Json]:
    """Return the security schemes by name."""
    return {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token that has the scope of the operation or, within its tenant, the scope `admin`: one "
            "that `POST /api/v1/tokens` has created, or one of the environment. Of these, `GIFTCARD_ADMIN_TOKEN` has "
            "all scopes, `GIFTCARD_API_TOKEN` has `orders:write` and `orders:read`, and `GIFTCARD_METRICS_TOKEN` has "
            "`metrics`. A token of one tenant sees and changes nothing of another one.",
        },
        "cron": {"type": "http", "scheme": "bearer", "description": "The value of `CRON_SECRET`."},
        "square": {
            "type": "apiKey",
            "in": "header",
            "name": "X-Square-Hmacsha256-Signature",
            "description": "HMAC-SHA256 of the notification URL and the body, computed by Square.",
        },
    }


def security(required: str | None) -> list[dict[str, list[str]]]:
    """Return the security requirement of an operation: a scope, or the name of another scheme. None: it is public."""
    if required is None:
        return []
    if required == "ticks":
        return [{"cron": []}]
    return [{required: []}] if required in security_schemes() else [{"token": [required]}]


def reference(model: Model) -> Json:
    """Return a reference to the schema of `model`."""
    return {"$ref": _SCHEMAS + _names()[model]}


def schemas() -> Json:
    """Return all schemas by their public names."""
    names = {old.rpartition("/")[2]: _names()[model] for model, old in _generated()[0].items()}
    return {
        names.get(name, name): _renamed({key: value for key, value in schema.items() if key != "title"}, names)
        for name, schema in _generated()[1].items()
    }


@functools.lru_cache(maxsize=1)
def _names() -> Mapping[Model, str]:
    return {model: PUBLIC_NAMES.get(model, model.__name__) for model in _generated()[0]}


@functools.lru_cache(maxsize=1)
def _generated() -> tuple[dict[Model, str], Json]:
    """References by model, and schemas by name, as pydantic names them."""
    models: set[Model] = {Problem, *PUBLIC_NAMES}
    for operation in OPERATIONS.values():
        models |= {model for model in (*operation.body, operation.response, operation.unhealthy) if model}
    mode: Literal["validation"] = "validation"
    inputs = [(model, mode) for model in sorted(models, key=lambda model: (model.__name__, model.__module__))]
    references, schemas = models_json_schema(inputs, ref_template=_SCHEMAS + "{model}", schema_generator=_Untitled)
    return {model: found["$ref"] for (model, _), found in references.items()}, schemas["$defs"]  # type: ignore[misc]


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        name = schema["$ref"].rpartition("/")[2]
        return schema | {"$ref": _SCHEMAS + names.get(name, name)}
    return {key: _renamed(value, names) for key, value in schema.items()}
