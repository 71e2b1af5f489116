"""Whatever is sent, the answer is an answer: never a 500, and a refusal changes nothing."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.postgres import Embedded
from tests.support.world import ADMIN, World, a_world, an_order, bearer

pytestmark = pytest.mark.slow

PATHS = [
    "/api/v1/giftcards",
    "/api/v1/giftcards/order-1",
    "/api/jobs/run",
    "/api/status",
    "/api/overview",
    "/api/health",
    "/api/cron/giftcard-jobs",
    "/api/v1/jobs",
    "/api/v1/jobs/1",
    "/api/v1/jobs/0",
    "/api/v1/jobs/99999999999999999999",
    "/api/v1/jobs/1/history",
    "/api/v1/jobs/1/requeue",
    "/api/v1/jobs/1/cancel",
    "/api/v1/jobs/requeue",
    "/api/v1/flows/order-1/cancel",
    "/api/v1/giftcards/order-1/free-of-charge",
    "/api/v1/giftcards/order-1/recipient",
    "/api/v1/giftcards/order-1/payment-events",
    "/api/v1/giftcards/order-1/block-card",
    "/api/v1/giftcards/order-1/resend",
    "/api/v1/giftcards/order-1/story",
    "/api/v1/orders/search",
    "/api/v1/reconciliation",
    "/api/v1/reconciliation/accept",
    "/api/v1/circuits",
    "/api/v1/circuits/email/reset",
    "/api/v1/limits",
    "/api/v1/limits/remove",
    "/api/v1/stages",
    "/api/v1/stages/*/pause",
    "/api/v1/stages/email/resume",
]

QUERY = [
    "tenant_id", "limit", "colour", "status", "stage", "circuit", "correlation_id", "error", "created_after",
    "created_before", "older", "newer", "reveal",
]  # fmt: skip

JOB = [
    "stage", "correlation_id", "tenant_id", "dedup_key", "payload", "max_attempts", "semantics", "ttr_seconds",
    "retry_delays", "priority", "concurrency_key", "scheduled_at", "delay_seconds", "colour",
]  # fmt: skip

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats()
    | st.text(max_size=40)
    | st.text(alphabet="\x00\ud800\udfff\u2028\x7fé\U0001f381", max_size=5)
    | st.sampled_from(["USD", "kate@example.com", "2030-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "NaN", "default"])
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)

FIELDS = ["customer", "amount", "message", "deliver_at", "tenant_id", "correlation_id", "colour"]
PARTS = {
    "customer": ["external_id", "given_name", "family_name", "email", "colour"],
    "amount": ["amount", "currency", "colour"],
}


@st.composite
def nearly_orders(draw: st.DrawFn) -> dict[str, Any]:
    """An order with a few of its fields replaced or taken out."""
    body = an_order()
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(FIELDS))
        part: Any = body
        if name in PARTS and isinstance(body.get(name), dict) and draw(st.booleans()):
            part, name = body[name], draw(st.sampled_from(PARTS[name]))
        if draw(st.booleans()):
            part[name] = draw(values)
        else:
            part.pop(name, None)
    return body


@st.composite
def nearly_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs to enqueue, or wishes for those that are there, not quite right."""
    job: dict[str, Any] = {"stage": "payment", "correlation_id": draw(st.sampled_from("abc")), "payload": an_order()}
    for name in draw(st.lists(st.sampled_from(JOB), max_size=3)):
        job[name] = draw(values)
    bulk = {"filter": draw(st.dictionaries(st.sampled_from(QUERY), values, max_size=2)), "dry_run": draw(values)}
    wish = {"by": draw(values), "reason": draw(values), "force": draw(values), "payload": draw(values)}
    return draw(st.sampled_from([job, {"jobs": [job]}, {"jobs": [job, job], "replace": draw(values)}, bulk, wish]))


triggers = st.dictionaries(
    st.sampled_from(["limit", "stage", "job_id", "budget_seconds", "colour"]),
    st.integers(-1, 3) | st.sampled_from(["payment", "", "x" * 200, 0.5, 1e308, 2**63, None, True]),
    max_size=4,
)


@pytest.fixture(scope="module")
def world(postgres: Embedded, template: str) -> Iterator[World]:
    """One for all examples: none of them may break it for the next."""
    postgres.start()
    url = postgres.create_database("fuzz", template=template)
    with a_world(url, GIFTCARD_TICK_BUDGET_SECONDS=0.5) as world:
        yield world
    postgres.drop_database("fuzz")  # another file of tests makes one of its own


many = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


def check(world: World, method: str, path: str, **request: Any) -> Any:
    headers = bearer(ADMIN) | request.pop("headers", {})
    before = world.row_counts()
    answer = world.client.open(path, method=method, headers=headers, **request)
    assert answer.status_code < 500, (answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.content_type == "application/problem+json"
        assert method == "HEAD" or answer.json["status"] == answer.status_code
        assert world.row_counts() == before
    return answer


@many
@given(body=values | nearly_orders())
def test_orders(world: World, body: Any) -> None:
    answer = check(world, "POST", "/api/v1/giftcards", data=json.dumps(body), content_type="application/json")
    assert answer.status_code in (202, 400, 409, 422)
    if answer.status_code == 202:
        # What was taken in can be read and run: it never stands in the way of a tick.
        where = answer.json["status_url"]
        assert check(world, "GET", where).json["jobs"]
        assert world.run(linger=False).errored == 0


@many
@given(body=triggers | values)
def test_triggers(world: World, body: Any) -> None:
    check(world, "POST", "/api/jobs/run", data=json.dumps(body), content_type="application/json")


@many
@given(
    path=st.sampled_from([path for path in PATHS if path.startswith("/api/v1/") and "giftcards" not in path]),
    body=nearly_jobs() | values,
)
def test_operators_bodies(world: World, path: str, body: Any) -> None:
    check(world, "POST", path, data=json.dumps(body), content_type="application/json")


@many
@given(
    query=st.dictionaries(
        st.sampled_from(QUERY), st.text(max_size=20) | st.sampled_from(["1", "true", "error"]), max_size=3
    )
)
def test_filters(world: World, query: dict[str, str]) -> None:
    check(world, "GET", "/api/v1/jobs", query_string=query)


@many
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
    path=st.sampled_from(PATHS)
    | st.text(max_size=30).map(lambda name: f"/api/v1/giftcards/{quote(name, errors='replace')}"),
    query=st.dictionaries(st.sampled_from(QUERY), st.text(max_size=20), max_size=2),
    raw=st.binary(max_size=100),
    kind=st.sampled_from(["application/json", "text/plain", ""]),
    key=st.none() | st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=300),
)
def test_anything(
    world: World, method: str, path: str, query: dict[str, str], raw: bytes, kind: str, key: str | None
) -> None:
    headers = {"Idempotency-Key": key} if key is not None else {}
    check(world, method, path, query_string=query, data=raw, content_type=kind, headers=headers)
