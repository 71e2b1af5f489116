"""The OpenAPI document is valid, fit for client generators, and written in plain English."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from openapi_python_client.strings import ClassName, PythonIdentifier, pascal_case
from openapi_spec_validator import OpenAPIV31SpecValidator

from lib.web.openapi.operation import TAGS
from lib.web.openapi.operations import PUBLIC_NAMES
from tests.support.openapi_document import openapi_document, operations


@pytest.fixture(scope="module")
def document() -> Any:
    return openapi_document()


def test_it_is_openapi_3_1(document: Any) -> None:
    assert document["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(document).validate()
    OpenAPIV31SpecValidator(document).validate()


def test_it_names_its_server_and_its_license(document: Any) -> None:
    assert [server["url"] for server in document["servers"]] == ["/"]
    assert document["info"]["license"] == {"name": "MIT", "identifier": "MIT"}


def test_every_operation_has_a_client_error_that_is_a_problem(document: Any) -> None:
    for path, method, operation in operations(document):
        errors = {status: found for status, found in operation["responses"].items() if status.startswith("4")}
        assert errors, f"{method} {path}"
        for response in errors.values():
            assert response["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }


def test_operation_ids_are_names_of_methods_and_tags_are_resources(document: Any) -> None:
    found = [operation for _, _, operation in operations(document)]
    ids = [operation["operationId"] for operation in found]
    assert len(set(ids)) == len(ids)
    assert not [name for name in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)+", name)]
    assert {tag for operation in found for tag in operation["tags"]} == set(TAGS)
    assert [tag["name"] for tag in document["tags"]] == list(TAGS)


def generated_names(name: str, schema: Any) -> Iterator[str]:
    """The classes that a client generator makes of a schema: objects and enumerations, also those in properties."""
    if not isinstance(schema, dict) or "$ref" in schema:
        return
    if schema.get("enum") or schema.get("type") == "object":
        yield name
    for key, each in schema.get("properties", {}).items():
        yield from generated_names(f"{name}_{each.get('title', key)}", each)
    for number, each in enumerate(schema.get("anyOf", [])):
        yield from generated_names(f"{name}_type_{number}", each)
    yield from generated_names(f"{name}_item", schema.get("items"))
    yield from generated_names(f"{name}_additional_property", schema.get("additionalProperties"))


def test_no_two_generated_classes_modules_or_fields_have_one_name(document: Any) -> None:
    schemas = document["components"]["schemas"]
    names: list[str] = []
    for name, schema in schemas.items():
        found = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema  # aliases are copied
        names += generated_names(found.get("title", name), found)
    for _, _, operation in operations(document):
        for parameter in operation["parameters"]:
            names += generated_names(f"{operation['operationId']}_{parameter['name']}", parameter["schema"])
    classes = [str(ClassName(pascal_case(name), "")) for name in names]
    modules = [str(PythonIdentifier(name, "")) for name in classes]
    for found in (classes, modules):
        assert not {name for name in found if found.count(name) > 1}
    for name, schema in schemas.items():
        fields = [str(PythonIdentifier(field, "")) for field in schema.get("properties", {})]
        assert len(set(fields)) == len(fields), name


def test_schemas_have_public_names(document: Any) -> None:
    schemas = set(document["components"]["schemas"])
    assert set(PUBLIC_NAMES.values()) <= schemas
    assert not {model.__name__ for model in PUBLIC_NAMES} & schemas


# Not the way an API's reference is written.
_AWKWARD = re.compile(
    r"\b(told|tells?|said|says?|heard|shall|whoever|nobody|somebody|doors?|wish|mend|looks? at|chore|inlet)\b"
    r"|goes by|as ever",
    re.IGNORECASE,
)


def test_its_texts_are_plain_english(document: Any) -> None:
    texts = list(texts_of(document))
    assert len(texts) > 350
    assert not [text for text in texts if _AWKWARD.search(text)]


def texts_of(part: Any) -> Iterator[str]:
    """The summaries and descriptions in a part of the document."""
    if isinstance(part, list):
        for each in part:
            yield from texts_of(each)
    elif isinstance(part, dict):
        yield from (part[name] for name in ("summary", "description") if isinstance(part.get(name), str))
        for each in part.values():
            yield from texts_of(each)
