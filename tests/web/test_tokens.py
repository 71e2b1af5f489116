"""Tokens that are rows: created once, found by their hash, with scopes, until they expire or are revoked."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.errors import CheckViolation

from lib.errors import Unavailable
from tests.support.world import ADMIN, API, CRON, World, an_order, bearer

Make = Callable[..., World]
TOKENS = "/api/v1/tokens"


def create(world: World, *scopes: str, **fields: Any) -> str:
    """Creates a token and returns it."""
    body = {"name": "shop", "scopes": list(scopes)} | fields
    response = world.client.post(TOKENS, json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    token: str = response.json["token"]
    return token


def test_only_the_first_response_has_the_token_and_the_database_never(world: World) -> None:
    token = create(world, "jobs:read")
    assert re.fullmatch(r"gct_[A-Za-z0-9_-]{43}", token)
    listed = world.client.get(TOKENS, headers=bearer(ADMIN))
    assert token not in listed.text
    assert "hash" not in listed.text
    assert listed.json["tokens"][0]["prefix"] == token[:8]
    assert token not in str(world.sql("select * from giftcard_tokens"))


def test_a_token_does_what_its_scopes_allow_and_names_the_one_that_it_lacks(world: World) -> None:
    token = create(world, "orders:write")
    assert world.submit(an_order(correlation_id="order-1"), token=token).status_code == 202
    refused = world.client.get("/api/v1/giftcards/order-1", headers=bearer(token))
    assert refused.status_code == 403
    assert refused.json["detail"] == "this requires a token with the scope orders:read"


def test_it_ends_when_it_expires_and_when_it_is_revoked(world: World) -> None:
    token = create(world, "jobs:read", expires_seconds=3600)
    assert world.client.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
    world.move(3601)
    expired = world.client.get("/api/v1/jobs", headers=bearer(token))
    assert (expired.status_code, expired.json["detail"]) == (401, "this token has expired: create another one")

    other = create(world, "jobs:read", name="other")
    assert world.client.delete(f"{TOKENS}/other", headers=bearer(ADMIN)).json["state"] == "revoked"
    revoked = world.client.get("/api/v1/jobs", headers=bearer(other))
    assert (revoked.status_code, revoked.json["detail"]) == (401, "this token is revoked: create another one")
    states = {token["name"]: token["state"] for token in world.client.get(TOKENS, headers=bearer(ADMIN)).json["tokens"]}
    assert states == {"shop": "expired", "other": "revoked"}


def test_revoking_again_changes_nothing(world: World) -> None:
    create(world, "jobs:read")
    first = world.client.delete(f"{TOKENS}/shop", headers=bearer(ADMIN)).json
    world.move(60)
    again = world.client.delete(f"{TOKENS}/shop", headers=bearer(ADMIN)).json
    assert again["state"] == first["state"] == "revoked"
    assert world.value("select count(*) from giftcard_audit where action = 'revoke_token'") == 1
    assert world.client.delete(f"{TOKENS}/none", headers=bearer(ADMIN)).status_code == 404


def test_its_last_use_is_written_once_a_minute_at_most(world: World) -> None:
    token = create(world, "jobs:read")

    def used() -> Any:
        assert world.client.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
        return world.value("select xmin::text || last_used_at from giftcard_tokens")

    first = used()
    assert used() == first
    world.move(61)
    moved = world.value("select xmin::text || last_used_at from giftcard_tokens")
    assert used() != moved


@pytest.mark.parametrize("other", ["", "gct_", "gct_" + "A" * 43, "gct_" + "A" * 10_000])
def test_a_token_that_nobody_created_is_unknown(world: World, other: str) -> None:
    create(world, "admin")
    refused = world.client.get("/api/v1/jobs", headers=bearer(other))
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == "Bearer"


def test_an_endpoint_without_a_token_of_the_environment_takes_tokens_of_rows(make_world: Make, world: World) -> None:
    token = create(world, "jobs:read", "admin")
    without = make_world(GIFTCARD_ADMIN_TOKEN=None, GIFTCARD_API_TOKEN=None, DATABASE_URL=world.url)
    assert without.client.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
    assert without.client.get("/api/v1/jobs", headers=bearer("x")).status_code == 503


def test_the_clock_is_started_by_its_own_secret_alone(world: World) -> None:
    token = create(world, "admin", "metrics", "jobs:write")
    for presented in (token, ADMIN, API):
        refused = world.client.post("/api/cron/giftcard-jobs", headers=bearer(presented))
        assert refused.status_code == 403, presented
    assert world.client.post("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 200


def test_a_token_of_the_environment_that_serves_twice_allows_both(make_world: Make) -> None:
    world = make_world(GIFTCARD_API_TOKEN=ADMIN)
    assert world.client.get("/api/v1/jobs", headers=bearer(ADMIN)).status_code == 200


class Away:
    """The wire of a database that is away."""

    def call(self, function: str, /, **arguments: Any) -> Any:
        raise Unavailable("no route to host")

    def close(self) -> None:
        pass


def test_while_the_database_is_away_tokens_of_rows_are_503_and_those_of_the_environment_get_in(
    make_world: Make,
) -> None:
    world = make_world(wire=Away())
    unknown = world.client.post("/api/v1/jobs/1/cancel", headers=bearer("gct_x"))
    assert (unknown.status_code, unknown.json["title"]) == (503, "the database is away")
    assert unknown.json["detail"] == "nothing was changed: repeat the request"
    assert world.client.get("/api/status", headers=bearer(API)).status_code == 403
    assert world.client.get("/api/openapi.json", headers=bearer(ADMIN)).status_code == 200


def test_personal_data_in_clear_requires_the_scope_admin(world: World) -> None:
    job_id = world.add("email", an_order())
    reader, admin = create(world, "jobs:read"), create(world, "admin", name="admin")
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{job_id}"):
        masked = world.client.get(path, headers=bearer(reader))
        assert "kate@example.com" not in masked.text
        refused = world.client.get(path, query_string={"reveal": "true"}, headers=bearer(reader))
        assert (refused.status_code, "scope admin" in refused.json["detail"]) == (403, True)
        assert "kate@example.com" in world.client.get(path, query_string={"reveal": "true"}, headers=bearer(admin)).text


BAD = {
    "name": [None, 1, "", "Shop", "a b", "-a", "a" * 64, "a/b", "a\n"],
    "scopes": [None, [], ["all"], "admin", ["ticks"], [1]],
    "tenant_id": ["", 1, "a\x00b", "a" * 201],
    "expires_seconds": [0, 59, -1, 1.5, "90d", 10**12],
}


def test_bad_requests_name_the_field(world: World) -> None:
    for field, values in BAD.items():
        for value in values:
            body = {"name": "shop", "scopes": ["admin"]} | {field: value}
            response = world.client.post(TOKENS, json=body, headers=bearer(ADMIN))
            assert response.status_code in (400, 422), (field, value)
            assert response.json["field"].startswith(field), (field, value)
    metrics = {"name": "shop", "scopes": ["metrics"], "tenant_id": "acme"}
    assert world.client.post(TOKENS, json=metrics, headers=bearer(ADMIN)).status_code == 422
    assert world.row_counts()["giftcard_tokens"] == 0


def test_scopes_of_a_row_are_one_plain_list(world: World) -> None:
    create(world, "admin")
    for scopes in ("{}", "{{admin},{metrics}}", "{admin,null}", "{other}"):
        with pytest.raises(CheckViolation, match="giftcard_tokens_scopes_are_known"):
            world.sql("update giftcard_tokens set scopes = %s::text[]", scopes)


def test_metrics_are_closed_to_one_tenant_whatever_its_row_has(world: World) -> None:
    token = create(world, "metrics")
    world.sql("update giftcard_tokens set tenant_id = 'acme'")
    refused = world.client.get("/api/metrics", headers=bearer(token))
    assert refused.status_code == 403
    assert refused.json["detail"] == "this token is for the tenant acme only, and this endpoint is about all tenants"
