"""Every error of validation reads as a field and a predicate in plain words: none of pydantic's own sentences."""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import lib
from lib.validation import Identifier, Matching, StrictModel, error_sentence, field_errors
from lib.validation.predicates import IMPOSSIBLE, predicate

# Pydantic's own core has the list of its errors.
ERRORS = {each["type"]: each for each in importlib.import_module("pydantic_core._pydantic_core").list_all_errors()}
# How sentences of pydantic's begin, or what they hold; regular expressions.
FOREIGN = re.compile(
    r"Input|String should|should (have|be|match)|after validation|Field required|Extra inputs|unable to|"
    r"Value error|valid (integer|string|number|boolean|dictionary|list)|\bNone\b|\^|\\|\[[aA]-[zZ]|fullmatch"
)
READS = re.compile(r"(must|is|has|have|does|names|contains|cannot|differs|holds|sends|repeats|belongs) ")
# What the modules of the settings and of answers build has sentences of its own, or none.
ELSEWHERE = ("lib.config.", "lib.web.openapi.", "lib.monitoring.doctor.")
WRONG: tuple[Any, ...] = (
    *(None, True, "", " ", "x", "x" * 4000, "\0", "1", "NaN", "2026-02-30", "2026-02-30T25:00:00Z", "A B"),
    *(-1, 0, 0.5, 10**30, -(10**30), [], [None], ["x"] * 2000, [{}], {}, {"a": None}, {"a": {"b": 1}}),
)


def _models() -> list[type[BaseModel]]:
    for module in pkgutil.walk_packages(lib.__path__, "lib."):
        importlib.import_module(module.name)

    def walk(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        for each in model.__subclasses__():
            if each.__module__.startswith("lib.") and not each.__module__.startswith(ELSEWHERE):
                yield each
            yield from walk(each)

    return sorted(dict.fromkeys(walk(BaseModel)), key=lambda each: (each.__module__, each.__name__))


MODELS = _models()
WAYS: tuple[Callable[[Any, dict[str, Any]], object], ...] = (
    lambda model, value: model.model_validate_json(json.dumps(value)),
    lambda model, value: model.model_validate(value),
    lambda model, value: model.model_validate(value, strict=False),
    lambda model, value: model.model_validate_strings(value, strict=False),
)


def _errors(model: type[BaseModel], value: Any) -> Iterator[ValidationError]:
    for way in WAYS:
        try:
            way(model, value)
        except ValidationError as error:
            yield error


def _of(error: str, **context: Any) -> str:
    """Return the predicate of an error of pydantic with this context."""
    return predicate({"type": error, "msg": "a sentence of pydantic", "ctx": context, "input": context.get("input")})


def test_the_models_of_all_rooms_are_walked() -> None:
    names = {model.__name__ for model in MODELS}
    assert names >= {"OrderRequest", "Filter", "TokenRequest", "HttpCall", "MailMessage", "RevealQuery", "Event"}


@pytest.mark.parametrize("kind", sorted(ERRORS))
def test_every_error_of_pydantic_has_a_predicate_or_cannot_occur(kind: str) -> None:
    context = dict(ERRORS[kind].get("example_context") or {}) | {"expected": "'a' or 'b'"}
    words = predicate({"type": kind, "msg": ERRORS[kind]["message_template_python"], "ctx": context, "input": "x"})
    assert READS.match(words)
    assert not FOREIGN.search(words)
    assert (kind in IMPOSSIBLE) is (words == "is not valid" and not kind.endswith(("value_error", "assertion_error")))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_no_model_says_a_sentence_of_pydantic(model: type[BaseModel]) -> None:
    tried: list[dict[str, Any]] = [{}, {"surplus": 1, "limits": 1}]
    tried += [{name: value} for name in model.model_fields for value in WRONG]
    for value in tried:
        for error in _errors(model, value):
            for (field, words), detail in zip(field_errors(error, model), error.errors(), strict=True):
                assert not FOREIGN.search(words), (field, words)
                if detail["loc"]:
                    assert READS.match(words), (field, words)
                    assert "[" not in field, field
                    assert not {"str", "int", "function-before", "dict", "list"} & set(field.split(".")[1:]), field


@pytest.mark.parametrize(
    ("error", "context", "words"),
    [
        ("too_short", {"min_length": 1, "input": []}, "must have at least 1 entry"),
        ("too_long", {"max_length": 2, "input": [1, 2, 3]}, "must have at most 2 entries"),
        ("too_short", {"min_length": 1, "input": ""}, "must have at least 1 character"),
        ("too_long", {"max_length": 200, "input": "x" * 201}, "must have at most 200 characters"),
        ("too_long", {"max_length": 1, "input": {"a": 1, "b": 2}}, "must have at most 1 field"),
        ("string_too_short", {"min_length": 1}, "must have at least 1 character"),
        ("greater_than_equal", {"ge": 1}, "must be at least 1"),
        ("greater_than", {"gt": 0.0}, "must be above 0"),
        ("less_than_equal", {"le": 1000000000}, "must be at most 1000000000"),
        ("less_than", {"lt": 0.5}, "must be below 0.5"),
        ("int_parsing", {}, "must be a whole number"),
        ("missing", {}, "is required"),
        ("literal_error", {"expected": "'queued', 'done' or 'dead'"}, "must be one of queued, done, dead"),
        ("literal_error", {"expected": "'this or that' or 'none'"}, "must be one of this or that, none"),
        ("literal_error", {"expected": "1 or 2"}, "must be one of 1, 2"),
        ("literal_error", {"expected": "'daily'"}, "must be daily"),
        ("decimal_max_places", {"decimal_places": 1}, "must have at most 1 decimal place"),
    ],
)
def test_the_words(error: str, context: dict[str, Any], words: str) -> None:
    assert _of(error, **context) == words


class Inner(StrictModel):
    limit: int = 1


class Outer(StrictModel):
    stage: Literal["email", "payment"] = "email"
    jobs: list[Inner] | None = None
    word: Annotated[str, Matching("^[a-z]+$", "must be a word")] = "a"
    name: Identifier = "a"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"stagee": "email"}, "stagee is unknown; did you mean stage?"),
        ({"zzz": 1}, "zzz is unknown"),
        ({"jobs": [{"limt": 3}]}, "jobs.0.limt is unknown; did you mean limit?"),
        ({"stage": "nothing"}, "stage must be one of email, payment"),
        ({"stage": "e-mail"}, "stage must be one of email, payment; did you mean email?"),
        ({"stage": 7}, "stage must be one of email, payment"),
        ({"word": "A"}, "word must be a word"),
        ({"name": " "}, "name must have at least 1 character"),
    ],
)
def test_a_field_and_its_predicate(value: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(value)
    assert error_sentence(field_errors(raised.value, Outer)) == sentence


def test_a_pattern_of_another_author_is_not_printed() -> None:
    class Foreign(BaseModel):
        model_config = ConfigDict(hide_input_in_errors=True)
        code: Annotated[str, Field(pattern="^[A-Z]{3}$")]

    with pytest.raises(ValidationError) as raised:
        Foreign(code="secret-42")
    assert field_errors(raised.value) == [("code", "does not have the form that is expected here")]


def test_the_schema_keeps_the_pattern() -> None:
    assert Outer.model_json_schema()["properties"]["word"]["pattern"] == "^[a-z]+$"
