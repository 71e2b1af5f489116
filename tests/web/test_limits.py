"""Limits over HTTP: set, listed with what is in force, removed; wrong ones are refused with the field."""

from typing import Any

import pytest

from tests.support.world import ADMIN, World, an_order, bearer

PAYMENT = {"kind": "stage", "name": "payment"}


def ask(world: World, method: str, path: str = "", body: Any = None) -> Any:
    return world.client.open(f"/api/v1/limits{path}", method=method, json=body, headers=bearer(ADMIN))


def test_a_limit_is_set_listed_and_removed(world: World) -> None:
    made = ask(world, "PUT", "", PAYMENT | {"runs": 2, "per_second": 10, "burst": 20, "for_seconds": 60})
    assert made.status_code == 200, made.text
    assert (made.json["name"], made.json["set_by"], made.json["tenant_id"]) == ("payment", "admin token", None)
    (row,) = ask(world, "GET").json["limits"]
    assert (row["state"], row["in_force"]) == ("active", {"runs": 2, "per_second": 10, "burst": 20})
    assert (row["running"], row["tokens"], row["held_until"]) == (0, 20, None)
    assert [limit["name"] for limit in world.client.get("/api/status", headers=bearer(ADMIN)).json["limits"]] == [
        "payment"
    ]
    assert ask(world, "POST", "/remove", PAYMENT).json["runs"] == 2
    assert ask(world, "GET").json == {"limits": [], "older": None}
    gone = ask(world, "POST", "/remove", PAYMENT)
    assert (gone.status_code, gone.json["title"].partition(":")[0]) == (404, "there is no limit stage payment")


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"name": "emial"}, 422, "name"),
        ({"kind": "circuit", "name": "http_cal:host"}, 422, "name"),
        ({"kind": "colour"}, 422, "kind"),
        ({"name": "x" * 301}, 422, "name"),
        ({"runs": "2"}, 422, "runs"),
        ({"runs": 10_001}, 422, "runs"),
        ({"per_second": 0}, 422, "per_second"),
        ({"until": "tomorrow"}, 422, "until"),
        ({"colour": "red"}, 422, "colour"),
        ({"runs": None}, 400, "runs"),
        ({"burst": 2}, 400, "burst"),
        ({"tenant_id": "acme"}, 400, "tenant_id"),
        ({"kind": "tenant"}, 400, "tenant_id"),
        ({"kind": "key", "name": "c-7", "tenant_id": "*"}, 400, "tenant_id"),
        ({"until": "2020-01-01T00:00:00Z"}, 400, "until"),
        ({"until": "2099-01-01T00:00:00Z", "for_seconds": 60}, 400, "for_seconds"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_field(world: World, change: Any, status: int, field: str) -> None:
    refused = ask(world, "PUT", "", PAYMENT | {"runs": 2} | change)
    assert (refused.status_code, refused.json["field"]) == (status, field), refused.text
    assert refused.content_type == "application/problem+json"
    assert world.value("select count(*) from giftcard_limits") == 0


def test_what_other_hands_wrote_is_masked(world: World) -> None:
    world.sql(
        "insert into giftcard_limits (kind, name, runs, set_by, reason)"
        " values ('stage', 'email', 1, 'kate@example.com', 'kate@example.com called')"
    )
    for shown in (ask(world, "GET"), world.client.get("/api/status", headers=bearer(ADMIN))):
        (row,) = shown.json["limits"]
        assert (row["set_by"], row["reason"]) == ("[email]", "[email] called")


def test_a_cursor_has_no_key_in_clear_because_it_is_part_of_a_url(world: World) -> None:
    names = ["bob@example.com", "kate@example.com", "pat@example.com"]
    for name in names:
        ask(world, "PUT", "", {"kind": "key", "name": name, "tenant_id": "acme", "runs": 2})
    found: list[str] = []
    query = {"limit": "1"}
    for _ in names:
        page = world.client.get("/api/v1/limits", query_string=query, headers=bearer(ADMIN)).json
        found += [limit["name"] for limit in page["limits"]]
        query |= {"older": page["older"]}
        assert "example" not in str(page["older"])
    assert (sorted(found), page["older"]) == (names, None)


@pytest.mark.parametrize("older", ["x", '["stage"]'])
def test_a_cursor_that_no_page_gave_is_refused(world: World, older: str) -> None:
    refused = world.client.get("/api/v1/limits", query_string={"older": older}, headers=bearer(ADMIN))
    assert (refused.status_code, refused.json["field"]) == (400, "older")


def test_the_next_tick_obeys_a_limit_and_its_end(world: World) -> None:
    job_id = world.add("customer_ingest", an_order())
    stage = {"kind": "stage", "name": "customer_ingest"}
    assert ask(world, "PUT", "", stage | {"runs": 0, "reason": "the shop moves"}).status_code == 200
    assert world.tick()["started"] == 0
    shown = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN)).json
    assert (shown["attempts"], shown["waiting_for"]["reason"], shown["waiting_for"]["by"]) == (
        *(0, "stage_full"),
        "admin token",
    )
    world.sql("update giftcard_limits set until = now()")
    assert world.tick()["started"] >= 1


def test_a_limit_of_a_tenant_lets_others_go(world: World) -> None:
    tenants = [{"tenant_id": "acme"}, {"tenant_id": "acme"}, {"tenant_id": "blue"}]
    for tenant in tenants:
        world.add("customer_ingest", an_order(), **tenant)
    acme = {"kind": "tenant", "name": "customer_ingest", "tenant_id": "acme"}
    ask(world, "PUT", "", acme | {"runs": 0})
    world.tick()
    left = world.sql("select tenant_id from giftcard_jobs where stage = 'customer_ingest' and status = 'queued'")
    assert [row["tenant_id"] for row in left] == ["acme", "acme"]
    ask(world, "POST", "/remove", acme)
    world.tick()
    query = "select count(*) from giftcard_jobs where stage = 'customer_ingest' and status = 'queued'"
    assert world.value(query) == 0
