"""The OpenAPI document as one HTML page, which loads nothing."""

from pathlib import Path
from typing import Any

from lib.templates import templates

Json = dict[str, Any]


def as_html(document: Json) -> str:
    """Return the page of this document."""
    environment = templates(Path(__file__).parent / "templates")
    environment.filters["kind"] = kind
    return environment.get_template("api.html").render(document=document)


def kind(schema: Json) -> str:
    """Return a short description of a schema: `integer, 1 to 200`, `Order or null`, `list of Job`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(kind(other) for other in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"“{value}”" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    parts = [schema.get("type", "anything"), schema.get("format"), _range(schema)]
    return ", ".join(part for part in parts if part)


def _range(schema: Json) -> str:
    least = schema.get("minimum", schema.get("exclusiveMinimum", schema.get("minLength")))
    most = schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if schema.get("type") == "string" else ""
    if least is None:
        return "" if most is None else f"at most {most}{unit}"
    above = "above " if "exclusiveMinimum" in schema else ""
    return f"{above}{least} and up" if most is None else f"{above}{least} to {most}{unit}"
