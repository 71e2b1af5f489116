"""Whatever is sent to the doors of webhooks, the answer is an answer: never a 500, and a refusal changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.postgres import Embedded
from tests.support.receiver import PATH
from tests.support.square import (
    LOCATION,
    MERCHANT,
    SETTINGS,
    activity,
    customer,
    dispute,
    event,
    gift_card,
    payment,
    refund,
    send,
    signature,
)
from tests.support.world import ADMIN, World, a_world, bearer

pytestmark = pytest.mark.slow

leaves = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats()
    | st.text(max_size=30)
    | st.text(alphabet="\x00\ud800\udfff\u2028\x7fé\U0001f381", max_size=5)
    | st.sampled_from(
        [
            *("COMPLETED", "FAILED", "ACTIVE", "WON", "USD", "EUR", "gc:order-1", "gftc:1", MERCHANT, LOCATION),
            *(2**63 - 1, "2030-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"),
        ]
    )
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def nearly_events(draw: st.DrawFn) -> Any:
    """An event of Square's with a few of its fields replaced or taken out, at any depth."""
    made: Any = draw(st.sampled_from([customer, payment, refund, dispute, lambda: gift_card(5), lambda: activity(5)]))()
    if draw(st.booleans()):
        made["type"] = draw(
            st.sampled_from(["customer.created", "payment.updated", "refund.created", "gift_card.updated", "a"])
        )
    for _ in range(draw(st.integers(0, 3))):
        part = made
        while True:
            name = draw(st.sampled_from(sorted(part)))
            if isinstance(part[name], dict) and part[name] and draw(st.integers(0, 3)):
                part = part[name]
                continue
            break
        if draw(st.booleans()):
            part[name] = draw(values)
        elif len(part) > 1:
            del part[name]
    return made


@pytest.fixture(scope="module")
def world(postgres: Embedded, template: str) -> Iterator[World]:
    """One for all examples: none of them may break it for the next."""
    postgres.start()
    url = postgres.create_database("webhook_fuzz", template=template)
    with a_world(url, **SETTINGS) as world:
        yield world


def check(world: World, answer: Any, before: dict[str, int]) -> None:
    assert answer.status_code < 500, (answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.content_type == "application/problem+json"
        counted = dict.fromkeys(("giftcard_denied_requests", "giftcard_counters"))
        assert world.row_counts() | counted == before | counted, "wrong signatures are counted, and nothing else"


@MANY
@given(body=nearly_events() | values)
def test_signed_events(world: World, body: Any) -> None:
    before = world.row_counts()
    answer = send(world, json.dumps(body).encode())
    check(world, answer, before)
    # What is signed is never sent again, whatever it is about.
    assert answer.status_code == 202
    if answer.json["kind"] == "job":
        assert world.run(linger=False).errored == 0


@MANY
@given(
    body=st.binary(max_size=200),
    signed=st.text(max_size=60) | st.none(),
    kind=st.text(alphabet="abc/json ", max_size=20),
)
def test_any_bytes(world: World, body: bytes, signed: str | None, kind: str) -> None:
    before = world.row_counts()
    fits = signature(body) if signed is None else signed.encode(errors="replace").decode("latin-1")
    fits = "".join(char for char in fits if char.isprintable())
    headers = {"x-square-hmacsha256-signature": fits}
    answer = world.client.post("/api/webhooks/square", data=body, content_type=kind, headers=headers)
    check(world, answer, before)
    assert answer.status_code in ((202,) if signed is None else (403, 429))


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    body: dict[str, Any] = {"url": "https://example.com/", "events": ["job.completed"]}
    for name in draw(
        st.lists(st.sampled_from(["url", "events", "enabled", "tenant_id", "former_hours", "colour"]), max_size=3)
    ):
        body[name] = draw(
            values
            | st.sampled_from(["http://[::1]/", "https://a.b/%00", "//x", "https://xn--/", ["giftcard.issued"] * 3])
            | st.text(max_size=20).map(lambda text: f"https://{text}")
        )
    return body


@MANY
@given(
    method=st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT"]),
    path=st.sampled_from(["", "/1", "/2", "/0", "/x", "/1/test", "/1/rotate-secret", f"/{2**64}", "/1/nothing"]),
    body=wishes() | values,
    query=st.dictionaries(st.sampled_from(["limit", "older", "tenant_id", "colour"]), st.text(max_size=10), max_size=2),
)
def test_endpoints(world: World, method: str, path: str, body: Any, query: dict[str, str]) -> None:
    before = world.row_counts()
    answer = world.client.open(
        f"{PATH}{path}",
        method=method,
        data=json.dumps(body),
        content_type="application/json",
        headers=bearer(ADMIN),
        query_string=query,
    )
    check(world, answer, before)
    if method == "GET" and path == "":
        assert "whsec_" not in answer.text


@MANY
@given(object=values)
def test_card_events_of_any_shape(world: World, object: Any) -> None:
    before = world.row_counts()
    sent = event("gift_card.updated", object={"gift_card": object})
    check(world, send(world, json.dumps(sent).encode()), before)
