"""The OpenAPI document is complete, true to the routes and to their responses, and holds no secret."""

import ast
import inspect
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, get_args

import pytest

from lib.job import Status
from lib.tokens.schemas import Scope
from lib.web.openapi.operations import OPERATIONS
from lib.web.openapi.responses.base import JobStatus
from lib.web.openapi.responses.ticks import TickReport
from tests.support.openapi_document import operations
from tests.support.square import KEY, SETTINGS, signature
from tests.support.world import ADMIN, API, CRON, ENCRYPTION_KEY, LOOKUP_KEY, World, an_order, bearer

METRICS = "metrics-token-of-tests"
TOKENS = {"cron": CRON, "admin": ADMIN, "api": API, "metrics": METRICS}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(GIFTCARD_METRICS_TOKEN=METRICS, **SETTINGS)


@pytest.fixture
def document(world: World) -> Any:
    answer = world.client.get("/api/openapi.json")
    assert (answer.status_code, answer.content_type) == (200, "application/json")
    return answer.json


def test_every_route_is_described_and_nothing_else_is(world: World) -> None:
    assert {rule.endpoint for rule in world.app.url_map.iter_rules()} == set(OPERATIONS)


def test_the_states_of_a_job_are_those_of_the_application() -> None:
    assert {str(status) for status in JobStatus} == set(get_args(Status))


def test_every_route_reads_the_models_of_its_operation(world: World) -> None:
    """As its source has them: `read_body(Trigger)`, `read_query(Filter, Page)`."""
    for endpoint, operation in OPERATIONS.items():
        if endpoint == "inbound_webhooks.from_square":  # it takes any body that is signed
            continue
        read: dict[str, set[str]] = {"read_body": set(), "validated": set(), "read_query": set()}
        for node in ast.walk(ast.parse(inspect.getsource(inspect.unwrap(world.app.view_functions[endpoint])))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in read:
                models = node.args if node.func.id == "read_query" else node.args[:1]
                read[node.func.id] |= {ast.unparse(model).rpartition(".")[2] for model in models}
        assert read["read_body"] | read["validated"] == {model.__name__ for model in operation.body}, endpoint
        assert read["read_query"] == {model.__name__ for model in operation.query}, endpoint


# What each token of the environment allows.
SCOPES = {
    "cron": {"ticks"},
    "admin": set(get_args(Scope)),
    "api": {"orders:write", "orders:read"},
    "metrics": {"metrics"},
}


def test_every_operation_takes_the_tokens_of_its_security_and_no_other(world: World, document: Any) -> None:
    for path, method, operation in operations(document):
        if not operation["security"] or "square" in operation["security"][0]:
            continue
        ((scheme, scopes),) = operation["security"][0].items()
        (required,) = scopes or ["ticks"]
        assert scheme == ("token" if scopes else "cron")
        concrete = re.sub(r"{\w+}", "1", path)
        for name, token in TOKENS.items():
            response = world.client.open(concrete, method=method.upper(), headers=bearer(token))
            refused = response.status_code == 403 and required in response.json["detail"]
            assert refused is (required not in SCOPES[name]), f"{method} {path} with {name}"
        assert world.client.open(concrete, method=method.upper()).status_code == 401, f"{method} {path}"


def test_events_of_square_have_the_statuses_that_the_document_lists(world: World, document: Any) -> None:
    """Whatever the body is, a signed one is 202."""
    listed = document["paths"]["/api/webhooks/square"]["post"]["responses"]
    assert set(listed) == {"202", "403", "413", "429", "503"}
    for body in (b"", b"{", b"[]", b"\xff"):
        for media_type in ("application/json", "text/plain", None):
            headers = {"x-square-hmacsha256-signature": signature(body)}
            answer = world.client.post("/api/webhooks/square", data=body, content_type=media_type, headers=headers)
            assert answer.status_code == 202


def test_the_signature_of_square_is_a_header(world: World, document: Any) -> None:
    (name,) = document["paths"]["/api/webhooks/square"]["post"]["security"][0]
    header = document["components"]["securitySchemes"][name]["name"]
    assert world.client.post("/api/webhooks/square", json={}).status_code == 403
    assert world.client.post("/api/webhooks/square", json={}, headers={header: "wrong"}).status_code == 403


def test_it_and_its_page_are_the_same_for_everybody_and_hold_no_secret(world: World) -> None:
    for path in ("/api/openapi.json", "/api/docs"):
        text = world.client.get(path).text
        assert world.client.get(path, headers=bearer(ADMIN)).text == text
        for secret in (*TOKENS.values(), ENCRYPTION_KEY, LOOKUP_KEY, KEY, world.url):
            assert secret not in text


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.ids |= {named["id"] or ""} if "id" in named else set()
        self.links |= {str(named[name]) for name in ("href", "src") if name in named}


def test_the_page_shows_every_operation_and_model_and_loads_nothing(world: World, document: Any) -> None:
    answer = world.client.get("/api/docs")
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    seen = _Seen()
    seen.feed(answer.text)
    ids = {operation["operationId"] for _, _, operation in operations(document)}
    assert ids | set(document["components"]["schemas"]) <= seen.ids
    assert not {"script", "img", "link", "iframe"} & set(seen.tags)
    assert "`" not in answer.text, "names in descriptions are code"
    assert seen.links - {f"#{name}" for name in seen.ids} == {"/api/openapi.json"}


def test_a_ticks_report_has_the_fields_of_its_model(world: World) -> None:
    assert set(world.tick()) == set(TickReport.model_fields)


# In this order: each finds what those before it have made.
ASKED: list[tuple[str, str, Any]] = [
    ("GET", "/api/v1/giftcards/order-1", None),
    ("GET", "/api/v1/jobs", None),
    ("GET", "/api/v1/jobs/1", None),
    ("GET", "/api/v1/jobs/1/history", None),
    ("GET", "/api/status", None),
    ("GET", "/api/overview", None),
    ("GET", "/api/v1/stages", None),
    ("GET", "/api/v1/precision", None),
    ("POST", "/api/v1/jobs/1/requeue", {"force": True}),
    ("POST", "/api/v1/jobs/1/cancel", None),
    ("POST", "/api/v1/stages/email/pause", {"by": "kim"}),
    ("POST", "/api/v1/stages/email/resume", {"by": "kim"}),
    ("POST", "/api/v1/reports", {"day": "2026-01-31"}),
    ("GET", "/api/v1/reports/default/2026-01-31", None),
    ("POST", "/api/v1/schedules", {"schedule": "0 9 * * *", "stage": "report"}),
    ("POST", "/api/v1/schedules/1/run", None),
    ("GET", "/api/v1/schedules/1/occurrences", None),
    ("POST", "/api/v1/schedules/1/pause", {"by": "kim"}),
    ("PATCH", "/api/v1/schedules/1", {"name": "morning"}),
    ("GET", "/api/v1/schedules", None),
    ("DELETE", "/api/v1/schedules/1", None),
    ("POST", "/api/v1/webhook-endpoints", {"url": "https://example.com/hooks", "events": ["giftcard.issued"]}),
    ("POST", "/api/v1/webhook-endpoints/1/rotate-secret", None),
    ("POST", "/api/v1/webhook-endpoints/1/test", None),
    ("GET", "/api/v1/webhook-endpoints/1", None),
    ("DELETE", "/api/v1/webhook-endpoints/1", None),
]


def test_responses_fit_their_models(world: World) -> None:
    world.submit(an_order(correlation_id="order-1"))
    world.tick()
    urls = world.app.url_map.bind("localhost")
    for method, path, body in ASKED:
        operation = OPERATIONS[urls.match(path, method)[0]]
        answer = world.client.open(path, method=method, headers=bearer(ADMIN), json=body)
        assert operation.response
        assert answer.status_code == operation.status, f"{method} {path}: {answer.text}"
        operation.response.model_validate_json(answer.text, strict=True)
