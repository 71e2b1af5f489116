"""The reports' door: made, listed, shown as JSON or CSV."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from werkzeug.test import TestResponse

from tests.support.world import ADMIN, API, World, an_order, bearer

DAY = "2026-01-31"


def make(world: World, **wish: Any) -> dict[str, Any]:
    answer = world.client.post("/api/v1/reports", json=wish, headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json
    return made


def get(world: World, path: str = "", *, accept: str | None = None, **query: Any) -> TestResponse:
    headers = bearer(ADMIN) | ({"Accept": accept} if accept else {})
    return world.client.get(f"/api/v1/reports{path}", query_string=query, headers=headers)


def a_card_of_today(world: World, tenant: str = "default") -> str:
    world.submit(an_order(tenant_id=tenant))
    while world.tick()["started"]:
        pass
    return str(datetime.now(UTC).date())


def test_a_report_is_made_and_kept(world: World) -> None:
    today = a_card_of_today(world, "acme")
    made = make(world, tenant_id="acme", day=today)
    assert (made["tenant_id"], made["day"], made["complete"]) == ("acme", today, False)
    assert made["totals"] | {"orders": 1, "payments": 1, "cards": 1, "failures": 0} == made["totals"]
    assert made["currencies"][0]["cards_amount"] == 2500
    assert get(world, f"/acme/{today}").json == made


@pytest.mark.parametrize("body", [None, {}])
def test_without_a_word_it_is_yesterday_of_the_default_tenant(world: World, body: Any) -> None:
    answer = world.client.post("/api/v1/reports", headers=bearer(ADMIN), **({} if body is None else {"json": body}))
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert (answer.json["tenant_id"], answer.json["day"]) == ("default", str(yesterday))


@pytest.mark.parametrize(
    ("wish", "status", "field"),
    [
        ({"day": "2026-02-30"}, 422, "day"),
        ({"day": "yesterday"}, 422, "day"),
        ({"day": "2026-1-31"}, 422, "day"),
        ({"day": "٢٠٢٦-٠١-٣١"}, 422, "day"),
        ({"day": 20260131}, 422, "day"),
        ({"day": "2999-01-01"}, 400, "day"),
        ({"day": "1999-12-31"}, 400, "day"),
        ({"tenant_id": ""}, 422, "tenant_id"),
        ({"tenant_id": "*"}, 422, "tenant_id"),
        ({"tenant": "acme"}, 422, "tenant"),
    ],
)
def test_what_cannot_be_made_is_told_by_its_field(world: World, wish: Any, status: int, field: str) -> None:
    answer = world.client.post("/api/v1/reports", json=wish, headers=bearer(ADMIN))
    assert (answer.status_code, answer.json["field"]) == (status, field)
    assert world.value("select count(*) from giftcard_reports") == 0


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", ""), ("GET", f"/default/{DAY}")])
def test_only_the_admin_token_opens_the_door(world: World, method: str, path: str) -> None:
    for headers in ({}, bearer(API), bearer("wrong")):
        assert world.client.open(f"/api/v1/reports{path}", method=method, headers=headers).status_code in (401, 403)


# CSV


@pytest.mark.parametrize(
    ("accept", "query", "is_csv"),
    [
        (None, {}, False),
        ("*/*", {}, False),
        ("application/json", {}, False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", {}, False),
        ("text/csv", {}, True),
        ("text/csv, application/json;q=0.5", {}, True),
        ("text/csv;q=0.1, application/json", {}, False),
        ("text/csv", {"format": "json"}, False),
        ("application/json", {"format": "csv"}, True),
    ],
)
def test_who_asks_for_csv_gets_csv(world: World, accept: str | None, query: dict[str, str], is_csv: bool) -> None:
    make(world, day=DAY)
    answer = get(world, f"/default/{DAY}", accept=accept, **query)
    assert answer.status_code == 200
    assert answer.mimetype == ("text/csv" if is_csv else "application/json")
    assert answer.headers["Vary"] == "Accept"


def test_csv_is_a_file_with_the_figures_of_the_report(world: World) -> None:
    formula = "=cmd|' /C calc'!A0"
    world.add("customer_ingest", an_order(), tenant_id=formula)
    while world.tick()["started"]:
        pass
    today = str(datetime.now(UTC).date())
    make(world, tenant_id=formula, day=today)
    answer = get(world, f"/{quote(formula, safe='')}/{today}", format="csv")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="giftcards-_cmd____C_calc__A0-{today}.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["figure"], row["amount"]) for row in rows] == [(f, "25.00") for f in ("orders", "payments", "cards")]
    assert {row["tenant_id"] for row in rows} == {f"'{formula}"}


# Shown and listed


@pytest.mark.parametrize("tenant", ["acme", "a/b", "Ünï 日本", "..", "a%2Fb", "acme/2026-01-30"])
def test_a_tenants_name_may_be_what_it_wants(world: World, tenant: str) -> None:
    made = make(world, tenant_id=tenant, day=DAY)
    path = quote(tenant, safe="").replace(".", "%2E")
    assert get(world, f"/{path}/{DAY}").json == made


@pytest.mark.parametrize(
    ("path", "query", "status", "field"),
    [
        (f"/default/{DAY}", {}, 404, "day"),
        ("/default/2026-02-30", {}, 404, "day"),
        ("/default/today", {}, 404, "day"),
        (f"/default/{DAY}", {"format": "xml"}, 422, "format"),
        (f"/default/{DAY}", {"reveal": "true"}, 422, "reveal"),
        ("", {"limit": "0"}, 422, "limit"),
        ("", {"limit": "201"}, 422, "limit"),
        ("", {"older": "7"}, 422, "older"),
        ("", {"older": "2026-02-30/default"}, 422, "older"),
        ("", {"older": "2026-01-31/"}, 422, "older"),
        ("", {"tenant_id": ""}, 422, "tenant_id"),
        ("", {"day": DAY}, 422, "day"),
    ],
)
def test_what_is_not_there_or_not_understood_is_told(
    world: World, path: str, query: dict[str, str], status: int, field: str
) -> None:
    answer = get(world, path, **query)
    assert (answer.status_code, answer.json["field"]) == (status, field), answer.text


def test_a_nul_in_a_tenants_name_is_refused(world: World) -> None:
    assert get(world, f"/a%00b/{DAY}").status_code == 400


def test_pages_lead_through_all_reports(world: World) -> None:
    for day, tenant in ((DAY, "b"), (DAY, "a/1"), ("2026-01-30", "b")):
        make(world, tenant_id=tenant, day=day)
    first = get(world, limit=2).json
    assert [(row["day"], row["tenant_id"]) for row in first["reports"]] == [(DAY, "b"), (DAY, "a/1")]
    assert first["reports"][0]["totals"]["orders"] == 0
    last = get(world, limit=2, older=first["older"]).json
    assert [(row["day"], row["tenant_id"]) for row in last["reports"]] == [("2026-01-30", "b")]
    assert last["older"] is None
    assert [row["day"] for row in get(world, tenant_id="b").json["reports"]] == [DAY, "2026-01-30"]
