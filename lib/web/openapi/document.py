"""The OpenAPI document, built from the application's routes, their operations and the components."""

import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

from apispec import APISpec
from flask import Flask
from werkzeug.routing import Rule

from lib.web.openapi.components import reference, schemas, security, security_schemes
from lib.web.openapi.operation import TAGS, Operation
from lib.web.openapi.operations import OPERATIONS
from lib.web.openapi.responses.base import Problem

Json = dict[str, Any]

_INFO = {
    "description": "Turns orders into gift cards. Responses may gain fields: ignore fields that you do not know.",
    "license": {"name": "MIT", "identifier": "MIT"},
}
_SERVERS = [{"url": "/", "description": "The deployment that serves this document."}]
_STATUSES = {
    200: "OK.",
    201: "Created.",
    202: "Accepted; a tick will run it.",
    400: "Bad request: the body is not valid JSON, or a value cannot be read.",
    401: "Unauthorized: the token is missing, unknown, expired or revoked.",
    403: "Forbidden: the token lacks the scope or belongs to another tenant, the signature does not match, or the "
    "deployment does not allow this.",
    404: "Not found.",
    409: "Conflict: the current state does not allow this.",
    413: "Content too large: the body exceeds 256 kB.",
    415: "Unsupported media type: send `application/json`.",
    422: "Unprocessable content: a field or parameter is invalid; `field` names it.",
    429: "Too many requests: too many wrong tokens or signatures came from this address.",
    503: "Service unavailable: the database is unreachable, or the endpoint is disabled because a setting is missing. "
    "Nothing was lost.",
}
_CLIENT_ERROR = "Client error: `title` and `detail` explain it."
_UNHEALTHY = "Unhealthy: the body is that of the 200 response."
_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}


@functools.lru_cache(maxsize=1)
def described(app: Flask) -> Json:
    """Return the OpenAPI document of this application.

    Raises:
        KeyError: a route has no operation.
    """
    spec = APISpec("Gift cards", "1", "3.1.1", info=_INFO, servers=_SERVERS)
    for name, description in TAGS.items():
        spec.tag({"name": name, "description": description})
    for name, scheme in security_schemes().items():
        spec.components.security_scheme(name, scheme)
    for name, schema in schemas().items():
        spec.components.schema(name, schema)
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        spec.path(path, operations={method.lower(): _operation(app, rule, method) for method in _methods(rule)})
    return spec.to_dict()


def _methods(rule: Rule) -> list[str]:
    return sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})


def _operation(app: Flask, rule: Rule, method: str) -> Json:
    view, operation = app.view_functions[rule.endpoint], OPERATIONS[rule.endpoint]
    summary, _, description = (inspect.getdoc(view) or "").partition("\n\n")
    required = operation.auth or vars(view).get("scope")
    if vars(view).get("all_tenants"):
        description = f"{description}\n\nRequires a token of all tenants."
    first = method == _methods(rule)[0]
    result: Json = {
        "operationId": operation.id if first else f"{operation.id}_{method.lower()}",
        "tags": [operation.tag],
        "summary": " ".join(summary.split()),
        "parameters": [*_path_parameters(rule), *_query_parameters(operation), *_header_parameters(operation)],
        "responses": _responses(rule, operation, guarded=required is not None),
        "security": security(required),
    }
    result |= {"description": " ".join(description.split())} if description else {}
    if operation.body:
        schemas = [reference(model) for model in operation.body]
        content = {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
        result["requestBody"] = {"required": not operation.body_optional, "content": content}
    return result


def _path_parameters(rule: Rule) -> Iterator[Json]:
    converters = rule._converters
    for name in re.findall(r"<(?:\w+:)?(\w+)>", rule.rule):
        whole = type(converters[name]).__name__ == "IntegerConverter"
        number = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
        schema = number if whole else {"type": "string", "minLength": 1, "pattern": r"^[^\u0000]+$"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(operation: Operation) -> Iterator[Json]:
    for model in operation.query:
        for name, found in model.model_json_schema().get("properties", {}).items():
            # In Python an omitted parameter is None. In a query string there is no null.
            (kind,) = [kind for kind in found.pop("anyOf", [{}]) if kind != {"type": "null"}]
            schema = {key: value for key, value in (found | kind).items() if key != "title" and value is not None}
            yield {"name": name, "in": "query", "required": False, "schema": schema}


def _header_parameters(operation: Operation) -> Iterator[Json]:
    for name, pattern in operation.headers.items():
        schema = {"type": "string"} | ({"pattern": pattern} if pattern else {})
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _responses(rule: Rule, operation: Operation, *, guarded: bool) -> Json:
    errors = set(operation.errors)
    errors |= {401, 403, 429, 503} if guarded else set()
    errors |= {400, 413, 415, 422} if operation.body else set()
    errors |= {400, 422} if operation.query else set()
    errors |= {400, 404, 422} if rule.arguments else set()
    errors = set(operation.all_errors) or errors
    responses = {str(status): _error(status) for status in sorted(errors)}
    if not errors:
        responses["4XX"] = _problem(_CLIENT_ERROR)
    if operation.unhealthy:
        response = responses.setdefault("503", {"content": {}})
        response["description"] = " ".join(filter(None, [_UNHEALTHY, response.get("description")]))
        response["content"]["application/json"] = {"schema": reference(operation.unhealthy)}
    content: Json = {"application/json": {"schema": reference(operation.response)}} if operation.response else {}
    content |= {media_type: {"schema": {"type": "string"}} for media_type in operation.media_types}
    return {str(operation.status): {"description": _STATUSES[operation.status], "content": content}} | responses


def _error(status: int) -> Json:
    response = _problem(_STATUSES[status])
    if status in _HEADERS:
        response["headers"] = {_HEADERS[status]: {"schema": {"type": "string"}}}
    return response


def _problem(description: str) -> Json:
    return {"description": description, "content": {"application/problem+json": {"schema": reference(Problem)}}}
