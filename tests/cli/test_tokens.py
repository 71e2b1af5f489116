"""Tokens from the command line, on the database and through the API."""

import re

import pytest

from tests.cli.conftest import NOT_A_TERMINAL, Door
from tests.support.world import ADMIN, World, bearer


def test_a_token_is_created_printed_once_listed_and_revoked(door: Door, world: World) -> None:
    assert door.says("tokens", "list") == "No token; those of the environment are not listed.\n"
    printed = door.says(
        *("tokens", "create", "shop", "--tenant", "acme", "--scope", "orders:read", "--scope", "orders:write"),
        *("--expires", "90d"),
    )
    (token,) = re.findall(r"not printed again: (gct_[\w-]{43})\n", printed)
    assert "Token shop" in printed
    assert "orders:read orders:write" in printed
    assert world.client.get("/api/v1/giftcards/none", headers=bearer(token)).status_code == 404

    listed = door.says("tokens", "list")
    assert token not in listed
    assert f"{token[:8]}…" in listed
    assert "acme" in listed
    (row,) = door.json("tokens", "list")["tokens"]
    assert (row["state"], row["tenant_id"], row["scopes"]) == ("active", "acme", ["orders:read", "orders:write"])
    assert row["last_used_at"]
    (life,) = world.sql("select expires_at - created_at = interval '90 days' as life from giftcard_tokens")
    assert life["life"]

    assert door.refuses("tokens", "revoke", "shop") == NOT_A_TERMINAL
    assert door.says("tokens", "revoke", "shop", "--yes") == "token shop is revoked\n"
    assert world.client.get("/api/v1/giftcards/none", headers=bearer(token)).status_code == 401
    assert "revoked" in door.says("tokens", "list")


def test_pages_continue_where_the_last_one_ended(door: Door) -> None:
    for name in ("a", "b", "c"):
        door.says("tokens", "create", name, "--scope", "jobs:read")
    first = door.json("tokens", "list", "--limit", "2")
    assert [token["name"] for token in first["tokens"]] == ["c", "b"]
    second = door.json("tokens", "list", "--older", str(first["older"]))
    assert [token["name"] for token in second["tokens"]] == ["a"]
    assert f"--older {first['older']}" in door.says("tokens", "list", "--limit", "2")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["shop"], "--scope must be one of orders:write, orders:read, jobs:read, jobs:write, admin, metrics, or"),
        (["shop", "--scope", "everything"], "--scope must be one of orders:write,"),
        (["Shop", "--scope", "admin"], "--name"),
        (["shop", "--scope", "admin", "--expires", "90"], "--expires: '90' is not a number of days or hours"),
        (["shop", "--scope", "admin", "--expires", "0d"], "--expires-seconds"),
        (["shop", "--scope", "metrics", "--tenant", "acme"], "metrics are those of all tenants"),
    ],
)
def test_bad_input_is_one_sentence(door: Door, options: list[str], sentence: str) -> None:
    assert sentence in door.refuses("tokens", "create", *options)


def test_names_are_taken_for_good_and_unknown_ones_refused(door: Door) -> None:
    door.says("tokens", "create", "shop", "--scope", "admin")
    assert "token shop exists already" in door.refuses("tokens", "create", "shop", "--scope", "admin")
    door.says("tokens", "revoke", "shop", "--yes")
    assert "token shop exists already" in door.refuses("tokens", "create", "shop", "--scope", "admin")
    assert "token none does not exist" in door.refuses("tokens", "revoke", "none", "--yes")


def test_the_audit_names_who_created_and_revoked_it_and_never_the_token(door: Door, world: World) -> None:
    token = door.json("tokens", "create", "shop", "--scope", "jobs:read")["token"]
    door.says("tokens", "revoke", "shop", "--yes")
    rows = world.sql("select * from giftcard_audit order by id")
    assert [(row["action"], row["subject"]) for row in rows] == [
        ("create_token", "token shop"),
        ("revoke_token", "token shop"),
    ]
    assert all(row["by"] for row in rows)
    stored = str(rows) + str(world.sql("select * from giftcard_tokens"))
    assert token not in stored
    assert ADMIN not in stored


def test_a_token_of_a_row_serves_as_the_token_of_the_command_line(direct: Door, world: World) -> None:
    token = direct.json("tokens", "create", "ops", "--scope", "admin")["token"]
    created = world.client.post("/api/v1/tokens", json={"name": "shop", "scopes": ["jobs:read"]}, headers=bearer(token))
    assert (created.status_code, created.json["created_by"]) == (201, "token ops")
