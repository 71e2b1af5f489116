"""What a job may say of the call it makes; what it may not is refused, with the field named, before it is stored."""

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from lib.stages.http_call import HttpCall, circuit_of
from lib.validation import field_errors
from tests.support.pages import named, rows
from tests.support.world import settings_of


def saved(payload: dict[str, Any], **environ: str) -> HttpCall:
    """As where a job is saved: the settings are known."""
    return HttpCall.model_validate_json(json.dumps(payload), context={"settings": settings_of(**environ)})


def test_little_has_to_be_said() -> None:
    call = saved({"url": "https://example.com/hook"})
    assert (call.method, call.headers, call.body, call.timeout_seconds) == ("POST", {}, None, 30)
    assert [status for status in range(100, 600) if call.expects(status)] == list(range(200, 300))


def test_api_is_a_short_form_of_url() -> None:
    assert saved({"api": "https://example.com/hook"}) == saved({"url": "https://example.com/hook"})
    assert saved({"api": "https://example.com/", "method": "GET"}).method == "GET"


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"api": "example.com"}, "url"),
        ({"api": 7}, "url"),
        ({"api": "https://example.com/", "url": "https://example.com/"}, "api"),
        ({"api": "http://169.254.169.254/"}, "url"),
    ],
)
def test_api_that_is_no_url_is_refused(payload: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        saved(payload)
    assert field_errors(caught.value)[0][0] == field


def test_all_can_be_said() -> None:
    call = saved(
        {
            "method": "PATCH",
            "url": "https://example.com/",
            "headers": {"Authorization": "Bearer {{secret:TOKEN_2}}"},
            "body": {"key": "{{secret:KEY}}", "list": [1, 2.5, None, True]},
            "timeout_seconds": 0.5,
            "expected_statuses": [200, 404],
        }
    )
    assert (call.expects(404), call.expects(201)) == (True, False)
    assert saved({"url": "https://example.com/", "body": "text"}).body == "text"


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("url", {"url": None}),
    ("url", {"url": "example.com"}),
    ("url", {"url": "https://example.com/?key={{secret:KEY}}"}),
    ("url", {"url": "https://{{secret:USER}}:x@example.com/"}),
    ("url", {"url": "http://127.0.0.1/"}),
    ("url", {"url": "http://169.254.169.254/latest/meta-data/"}),
    ("url", {"url": "http://[::ffff:10.0.0.1]/"}),
    ("url", {"url": "http://localhost:8000/"}),
    ("method", {"method": "get"}),
    ("method", {"method": "CONNECT"}),
    ("method", {"method": "TRACE"}),
    ("method", {"method": "POST / HTTP/1.1\r\nX: y"}),
    ("headers", {"headers": {"Host": "inside"}}),
    ("headers", {"headers": {"content_length": "3"}}),
    ("headers", {"headers": {"Idempotency-Key": "mine"}}),
    ("headers", {"headers": {"X": "a\r\nHost: inside"}}),
    ("headers", {"headers": {"X": "{{secret:small}}"}}),
    ("headers", {"headers": {"{{secret:NAME}}": "x"}}),
    ("headers", {"headers": {f"X-{n}": "x" for n in range(51)}}),
    ("headers.X", {"headers": {"X": 1}}),
    ("headers", {"headers": ["X"]}),
    ("body", {"method": "GET", "body": ""}),
    ("body", {"method": "HEAD", "body": {}}),
    ("body", {"body": "{{ secret:KEY }}"}),
    ("body", {"body": {"a": ["{{secret:}}"]}}),
    ("body", {"body": {"{{SECRET:KEY}}": 1}}),
    ("timeout_seconds", {"timeout_seconds": "30"}),
    ("timeout_seconds", {"timeout_seconds": True}),
    ("timeout_seconds", {"timeout_seconds": 0}),
    ("timeout_seconds", {"timeout_seconds": -1}),
    ("timeout_seconds", {"timeout_seconds": 3601}),
    ("timeout_seconds", {"timeout_seconds": None}),
    ("timeout_seconds", {"timeout_seconds": float("nan")}),
    ("expected_statuses", {"expected_statuses": []}),
    ("expected_statuses", {"expected_statuses": 200}),
    ("expected_statuses.1", {"expected_statuses": [200, 100]}),
    ("expected_statuses.0", {"expected_statuses": ["200"]}),
    ("expected_statuses.0", {"expected_statuses": [600]}),
    ("timeout", {"timeout": 30}),
]


@pytest.mark.parametrize(("field", "said"), REFUSED)
def test_what_may_not_be_said_is_refused_by_field(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        saved({"url": "https://example.com/"} | said)
    named, words = field_errors(refused.value)[0]
    assert named == field
    assert (field + words).isprintable()


def test_network_that_is_allowed_may_be_called() -> None:
    networks = "127.0.0.0/8, 10.1.0.0/16,::1"
    for url in ("http://127.0.0.1:8000/", "http://localhost/", "http://10.1.2.3/", "http://[::1]:8000/"):
        assert saved({"url": url}, GIFTCARD_ALLOWED_NETWORKS=networks).url == url
    with pytest.raises(ValidationError):
        saved({"url": "http://10.2.0.1/"}, GIFTCARD_ALLOWED_NETWORKS=networks)


@pytest.mark.parametrize(
    ("url", "circuit"),
    [
        ("https://Example.COM:8443/a", "http_call:example.com"),
        ("http://8.8.8.8/", "http_call:8.8.8.8"),
        ("http://[2606:4700:0::1]/", "http_call:2606:4700::1"),
    ],
)
def test_each_host_has_its_circuit(url: str, circuit: str) -> None:
    assert circuit_of(saved({"url": url})) == circuit


def test_every_field_is_told() -> None:
    told = {named(cells[0])[0]: cells for cells in rows("http_calls", columns=4) if named(cells[0])}
    assert list(told) == ["url", *(name for name in HttpCall.model_fields if name != "url")]
    assert told["method"][2].split(", ") == list(get_args(HttpCall.model_fields["method"].annotation))
    assert told["timeout_seconds"][1] == str(HttpCall.model_fields["timeout_seconds"].default)
