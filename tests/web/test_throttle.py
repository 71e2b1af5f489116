"""Wrong tokens and signatures: counted, logged without the token, and refused for a while beyond a limit."""

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.square import SETTINGS
from tests.support.world import ADMIN, API, World, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]
METRICS = "metrics-token-of-tests"
LIMIT = 20


def knock(world: World, token: str = "wrong", *, address: str = "203.0.113.1", **headers: str) -> Any:
    client: FlaskClient = world.client
    given = bearer(token) | {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get("/api/v1/giftcards/secret-order", headers=given, environ_base={"REMOTE_ADDR": address})


def test_beyond_the_limit_an_address_waits_and_others_do_not(world: World) -> None:
    assert [knock(world).status_code for _ in range(LIMIT)] == [401] * LIMIT
    refused = knock(world)
    assert refused.status_code == 429
    assert refused.content_type == "application/problem+json"
    assert 0 < int(refused.headers["Retry-After"]) <= 300
    assert knock(world, address="203.0.113.2").status_code == 401
    world.move(int(refused.headers["Retry-After"]) + 1)
    assert knock(world).status_code == 401


def test_a_right_token_is_never_refused(world: World) -> None:
    created = world.client.post("/api/v1/tokens", json={"name": "shop", "scopes": ["admin"]}, headers=bearer(ADMIN))
    for _ in range(LIMIT + 5):
        knock(world)
    assert knock(world).status_code == 429
    for token in (API, ADMIN, created.json["token"]):
        assert knock(world, token).status_code == 404
    assert world.client.get("/api/v1/jobs").status_code == 401, "no token at all is not a wrong one"


def test_expired_and_revoked_tokens_count_as_well(world: World) -> None:
    for name in ("expired", "revoked"):
        body = {"name": name, "scopes": ["orders:read"], "expires_seconds": 60}
        token = world.client.post("/api/v1/tokens", json=body, headers=bearer(ADMIN)).json["token"]
        if name == "revoked":
            world.client.delete("/api/v1/tokens/revoked", headers=bearer(ADMIN))
        world.move(61)
        assert knock(world, token).status_code == 401
    assert counters(world) == {"expired": 1, "revoked": 1}


def test_wrong_signatures_count_as_well(make_world: Make) -> None:
    world = make_world(**SETTINGS)
    statuses = [world.client.post("/api/webhooks/square", json={}).status_code for _ in range(LIMIT + 1)]
    assert statuses == [403] * LIMIT + [429]
    assert counters(world) == {"signature": LIMIT + 1}


def test_the_log_has_the_reason_and_the_path_and_neither_token_nor_address(world: World, log: Log) -> None:
    for _ in range(LIMIT + 5):
        knock(world, "a-secret-that-is-wrong")
    lines = [line for line in log() if line["event"] == "request_denied"]
    assert len(lines) == LIMIT, "beyond the limit they are only counted"
    assert {(line["reason"], line["path"]) for line in lines} == {("unknown", "/api/v1/giftcards/<correlation_id>")}
    for private in ("a-secret", "203.0.113", "secret-order"):
        assert private not in str(lines)


def test_they_are_a_metric_by_reason(make_world: Make) -> None:
    world = make_world(GIFTCARD_METRICS_TOKEN=METRICS)
    for _ in range(3):
        knock(world)
    text = world.client.get("/api/metrics", headers=bearer(METRICS)).text
    assert 'giftcard_denied_requests_total{reason="unknown"} 3.0' in text


def test_the_rows_are_bounded_by_a_number_of_hashes(world: World) -> None:
    for number in range(60):
        knock(world, "wrong-one", address=f"2001:db8:{number:x}::1")
    rows = world.sql("select * from giftcard_denied_requests")
    assert 50 < len(rows) <= 60
    assert all(0 <= row["bucket"] < 4096 for row in rows)
    refused = "insert into giftcard_denied_requests (bucket, window_at, requests) values (4096, now(), 1)"
    with pytest.raises(Exception, match="bucket_is_known"):
        world.sql(refused)


def test_addresses_of_one_ipv6_network_count_as_one_and_mapped_ones_as_ipv4(world: World) -> None:
    for number in range(10):
        knock(world, address=f"2001:db8::{number:x}")
        knock(world, address="::ffff:203.0.113.1" if number % 2 else "203.0.113.1")
    assert sorted(row["requests"] for row in world.sql("select requests from giftcard_denied_requests")) == [10, 10]


def test_the_header_of_the_proxy_counts_on_vercel_alone(make_world: Make, world: World) -> None:
    for number in range(5):
        knock(world, X_Real_Ip=f"198.51.100.{number}")
    assert world.value("select count(*) from giftcard_denied_requests") == 1, "here a caller could choose it"
    there = make_world(VERCEL_ENV="production")
    for number in range(5):
        knock(there, X_Real_Ip=f"198.51.100.{number}")
    assert there.value("select count(*) from giftcard_denied_requests") == 6


def test_a_clock_that_goes_back_does_not_lock_anyone_out(world: World) -> None:
    for _ in range(LIMIT + 1):
        knock(world)
    world.sql("update giftcard_denied_requests set window_at = now() + interval '1 year'")
    assert knock(world).status_code == 401


def counters(world: World) -> dict[str, float]:
    rows = world.sql("select label, value from giftcard_counters where name = 'denied_requests'")
    return {row["label"]: row["value"] for row in rows}
