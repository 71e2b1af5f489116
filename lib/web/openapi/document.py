"""The description of the API, made of the table, of the models and of the application's own routes."""

import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

from apispec import APISpec
from flask import Flask
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from werkzeug.routing import Rule

from lib.web.openapi.answers import Problem
from lib.web.openapi.table import TABLE, Described

Json = dict[str, Any]

_SAYS = {
    200: "Done.",
    201: "Made.",
    202: "Taken in: ticks do it.",
    400: "Not JSON, or text that means nothing here.",
    401: "No token, or a wrong one.",
    403: "Not from here.",
    404: "It does not exist.",
    409: "It is not in a state for that.",
    413: "More than 256 kB.",
    415: "Another content type than application/json.",
    422: "A field or parameter is wrong: `field` names it.",
    503: "The database is away, or this door is shut. Nothing was lost.",
}
_DOORS = {
    "cron": ("CRON_SECRET", ["cron"]),
    "admin": ("GIFTCARD_ADMIN_TOKEN", ["admin"]),
    "api": ("GIFTCARD_API_TOKEN", ["api", "admin"]),
    "metrics": ("GIFTCARD_METRICS_TOKEN", ["metrics", "admin"]),
}
_ABOUT = "Orders become gift cards. Whoever reads answers passes over fields that it does not know."
_SIGNATURE, _SIGNED = "X-Square-Hmacsha256-Signature", "HMAC of the address and the body, by Square."
_PLACE = "#/components/schemas/"
_TOLD_BY = {401: "WWW-Authenticate", 503: "Retry-After"}


@functools.lru_cache(maxsize=1)
def described(app: Flask) -> Json:
    """The document of this application.

    Raises:
        KeyError: the table does not know a route.
    """
    spec = APISpec("Gift cards", "1", "3.1.1", info={"description": _ABOUT})
    for name, (variable, _) in _DOORS.items():
        said = f"The value of `{variable}`."
        spec.components.security_scheme(name, {"type": "http", "scheme": "bearer", "description": said})
    spec.components.security_scheme(
        "square", {"type": "apiKey", "in": "header", "name": _SIGNATURE, "description": _SIGNED}
    )
    for name, schema in _schemas().items():
        spec.components.schema(name, schema)
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        spec.path(path, operations={method.lower(): _operation(app, rule, method) for method in _methods(rule)})
    return spec.to_dict()


def _schemas() -> Json:
    models: set[type[BaseModel]] = {Problem}
    for told in TABLE.values():
        models |= {model for model in (*told.body, told.answer, told.troubled) if model}
    listed = sorted(models, key=lambda model: model.__name__)
    schemas: Json = models_json_schema([(model, "validation") for model in listed], ref_template=_PLACE + "{model}")[1]
    return schemas["$defs"]  # type: ignore[no-any-return]


def _methods(rule: Rule) -> list[str]:
    return sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})


def _operation(app: Flask, rule: Rule, method: str) -> Json:
    view, told = app.view_functions[rule.endpoint], TABLE[rule.endpoint]
    summary, _, more = (inspect.getdoc(view) or "").partition("\n\n")
    door = told.door or vars(view).get("door")
    name = rule.endpoint.replace(".", "_")
    made: Json = {
        "operationId": name if _methods(rule) == [method] else f"{name}_{method.lower()}",
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": " ".join(summary.split()),
        "parameters": [*_in_path(rule), *_in_query(told), *_in_headers(told)],
        "responses": _responses(rule, told, guarded=door is not None),
        "security": [{scheme: []} for scheme in _DOORS.get(door, ("", [door]))[1]] if door else [],
    }
    made |= {"description": more} if more else {}
    if told.body:
        schemas = [_of(model) for model in told.body]
        content = {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
        made["requestBody"] = {"required": not told.body_optional, "content": content}
    return made


def _of(model: type[BaseModel]) -> Json:
    return {"$ref": _PLACE + model.__name__}


def _in_path(rule: Rule) -> Iterator[Json]:
    converters = rule._converters
    for name in re.findall(r"<(?:\w+:)?(\w+)>", rule.rule):
        whole = type(converters[name]).__name__ == "IntegerConverter"
        number = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
        schema = number if whole else {"type": "string", "minLength": 1, "pattern": r"^[^\u0000]+$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(told: Described) -> Iterator[Json]:
    for model in told.query:
        for name, found in model.model_json_schema().get("properties", {}).items():
            # What is not given is None; nobody can give it.
            (kind,) = [kind for kind in found.pop("anyOf", [{}]) if kind != {"type": "null"}]
            schema = {word: said for word, said in (found | kind).items() if word != "title" and said is not None}
            yield {"name": name, "in": "query", "required": False, "schema": schema}


def _in_headers(told: Described) -> Iterator[Json]:
    for name, pattern in told.headers.items():
        schema = {"type": "string"} | ({"pattern": pattern} if pattern else {})
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _responses(rule: Rule, told: Described, *, guarded: bool) -> Json:
    refused = set(told.refuses)
    refused |= {401, 503} if guarded else set()
    refused |= {400, 413, 415, 422} if told.body else set()
    refused |= {400, 422} if told.query else set()
    refused |= {400, 404, 422} if rule.arguments else set()
    responses = {str(status): _refusal(status) for status in sorted(refused)}
    content: Json = {"application/json": {"schema": _of(told.answer)}} if told.answer else {}
    content |= {media: {"schema": {"type": "string"}} for media in told.texts}
    answer: Json = {"description": _SAYS[told.status], "content": content}
    if told.troubled:
        trouble = responses.setdefault("503", {"description": "Trouble.", "content": {}})
        trouble["content"]["application/json"] = {"schema": _of(told.troubled)}
    return {str(told.status): answer} | responses


def _refusal(status: int) -> Json:
    made: Json = {
        "description": _SAYS[status],
        "content": {"application/problem+json": {"schema": _of(Problem)}},
    }
    if status in _TOLD_BY:
        made["headers"] = {_TOLD_BY[status]: {"schema": {"type": "string"}}}
    return made
