"""Applications of tests share what they compile, and only what is the same."""

from typing import Any

import jinja2
import pytest
from werkzeug.routing import Map, Rule

from tests.support import caches


def address(rule: str, **values: Any) -> str:
    return Map([Rule(rule, endpoint="x")]).bind("h").build("x", values)


def test_rules_with_one_address_build_alike_and_others_their_own() -> None:
    assert address("/jobs/<int:job_id>", job_id=7, page=2) == "/jobs/7?page=2"
    assert address("/jobs/<int:job_id>", job_id=8) == "/jobs/8"
    assert address("/jobs/<name>", name="a b") == "/jobs/a%20b"
    assert address("/jobs/<path:name>", name="a/b") == "/jobs/a/b"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"autoescape": False}, "<b>: 1"),
        ({"autoescape": True}, "&lt;b&gt;: 1"),
        ({"autoescape": jinja2.select_autoescape(["html"])}, "&lt;b&gt;: 1"),
        ({"variable_start_string": "[[", "variable_end_string": "]]"}, "{{ text }}: {{ 1 }}"),
    ],
)
def test_templates_are_compiled_once_for_each_kind_of_environment(options: dict[str, Any], shown: str) -> None:
    loader = jinja2.DictLoader({"page.html": "{{ text }}: {{ 1 }}"})
    for _ in range(2):
        assert jinja2.Environment(loader=loader, **options).get_template("page.html").render(text="<b>") == shown  # noqa: S701


def test_what_is_compiled_is_kept() -> None:
    address("/kept/<int:job_id>", job_id=1)
    kept = len(caches._BUILDERS)
    address("/kept/<int:job_id>", job_id=2)
    assert len(caches._BUILDERS) == kept > 0


def test_a_mistake_in_a_template_is_found_each_time() -> None:
    for _ in range(2):
        with pytest.raises(jinja2.TemplateSyntaxError, match="unexpected '%'"):
            jinja2.Environment(loader=jinja2.DictLoader({"x": "{% if %"})).get_template("x")  # noqa: S701
