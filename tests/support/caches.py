"""What is the same in every application of a process is made once: builders of addresses, and code of templates.

Each test has an application of its own. Half of its time was spent on compiling the same routes and templates anew.
"""

from types import CodeType
from typing import Any
from unittest import mock

import jinja2
import pytest
from werkzeug.routing import Rule

_BUILDERS: dict[Any, Any] = {}
_CODES: dict[Any, CodeType] = {}

_compile_builder = Rule._compile_builder
_compile = jinja2.Environment.compile


def _builder(rule: Rule, append_unknown: bool = True) -> Any:
    """Return the builder of a rule's addresses, which gets the rule as its first argument."""
    if rule.defaults:
        return _compile_builder(rule, append_unknown)
    key = (rule.rule, tuple(rule._trace), append_unknown)
    if key not in _BUILDERS:
        _BUILDERS[key] = _compile_builder(rule, append_unknown)
    return _BUILDERS[key]


def _code(environment: jinja2.Environment, source: Any, *place: str | None, **options: Any) -> Any:
    """Return the code of a template. It depends on its text, its place, and what its environment has."""
    if options or not isinstance(source, str) or len(place) != 2:
        return _compile(environment, source, *place, **options)  # type: ignore[arg-type]
    key = (source, place, _kind(environment, place[0]))
    if key not in _CODES:
        _CODES[key] = _compile(environment, source, *place)
    return _CODES[key]


def _kind(environment: jinja2.Environment, name: str | None) -> tuple[Any, ...]:
    """Return all that the code of a template of this name depends on. Equal syntax is one lexer."""
    escapes = environment.autoescape
    functions = (environment.filters, environment.tests)
    return (
        type(environment),
        environment.lexer,
        (environment.is_async, environment.optimized, environment.sandboxed),
        escapes if isinstance(escapes, bool) else escapes(name),
        tuple(environment.extensions),
        *(tuple((name, function.__qualname__) for name, function in known.items()) for known in functions),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep them until the session ends."""
    for target, name, replacement in ((Rule, "_compile_builder", _builder), (jinja2.Environment, "compile", _code)):
        patch = mock.patch.object(target, name, replacement)
        patch.start()
        config.add_cleanup(patch.stop)
