"""The API of webhook endpoints: what it takes, what it answers, what it refuses."""

import base64
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.factory import World as Rows
from tests.support.receiver import PATH, ask
from tests.support.webhook_rows import endpoint, seen_waiting
from tests.support.world import ADMIN, API, World, bearer

Make = Callable[..., World]

URL = "https://shop.example.com/hooks?of=giftcards"
NEW = {"url": URL, "events": ["giftcard.issued"]}


def answer(world: World, method: str, path: str = "", body: Any = None, *, token: str = ADMIN) -> Any:
    return world.client.open(f"{PATH}{path}", method=method, json=body, headers=bearer(token))


def made(world: World, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "POST", body=NEW | fields)
    return found


def test_secret_is_shown_once_and_in_the_form_of_the_specification(world: World) -> None:
    endpoint = made(world)
    secret = endpoint.pop("secret")
    assert secret.startswith("whsec_")
    assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) <= 64
    assert ask(world, "GET", f"/{endpoint['id']}") == endpoint
    assert ask(world, "GET") == {"endpoints": [endpoint], "older": None}
    assert "secret" not in ask(world, "PATCH", f"/{endpoint['id']}", {"events": ["job.completed"]})
    assert made(world, tenant_id="acme")["secret"] != secret


def test_endpoint_is_as_it_was_asked_for(world: World) -> None:
    endpoint = made(world, tenant_id="acme", events=["report.ready", "job.completed", "report.ready"])
    assert (endpoint["tenant_id"], endpoint["url"]) == ("acme", URL)
    assert endpoint["events"] == ["report.ready", "job.completed"]
    assert (endpoint["enabled"], endpoint["disabled_reason"], endpoint["previous_secret_until"]) == (True, None, None)
    off = made(world, enabled=False)
    assert (off["tenant_id"], off["enabled"], off["disabled_reason"]) == ("default", False, "made off")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"url": "https://example.com/b"}, {"url": "https://example.com/b"}),
        ({"events": ["job.dead_lettered"]}, {"events": ["job.dead_lettered"]}),
        ({"enabled": False}, {"enabled": False, "disabled_reason": "turned off by hand"}),
        ({"enabled": True, "url": None}, {"enabled": True, "disabled_reason": None}),
    ],
    ids=["url", "events", "off", "on"],
)
def test_change_touches_what_it_names(world: World, change: dict[str, Any], shown: dict[str, Any]) -> None:
    before = made(world)
    after = ask(world, "PATCH", f"/{before['id']}", change)
    names = {name for name in after if after[name] != before[name]} - {"updated_at"}
    assert {name: after[name] for name in shown} == shown
    assert names <= set(shown)
    assert after["updated_at"] > before["updated_at"]


def test_turned_on_again_has_no_reason_to_be_off(world: World) -> None:
    endpoint = made(world, enabled=False)
    assert ask(world, "PATCH", f"/{endpoint['id']}", {"enabled": False})["disabled_reason"] == "made off"
    assert ask(world, "PATCH", f"/{endpoint['id']}", {"enabled": True})["disabled_reason"] is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://user:pass@example.com/"}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://2130706433/"}, "url"),
        ({"url": "http://[::ffff:169.254.169.254]/latest"}, "url"),
        ({"url": "http://localhost:8000/"}, "url"),
        ({"url": "https://example.com:22/"}, "url"),
        ({"url": 7}, "url"),
        ({"events": []}, "events"),
        ({"events": ["giftcard.lost"]}, "events.0"),
        ({"events": "giftcard.issued"}, "events"),
        ({"enabled": "yes"}, "enabled"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"colour": "red"}, "colour"),
        ({"secret": "whsec_AAAA"}, "secret"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)  # fmt: skip
@pytest.mark.parametrize("way", ["POST", "PATCH"])
def test_what_cannot_be_is_refused_by_its_field(world: World, way: str, change: dict[str, Any], field: str) -> None:
    before = made(world, url="https://example.com/before")
    path, body = ("", NEW | change) if way == "POST" else (f"/{before['id']}", change)
    refusal = answer(world, way, path, body)
    assert (refusal.status_code, refusal.json["field"]) == (422, field)
    assert len(ask(world, "GET")["endpoints"]) == 1
    assert "secret" in before


@pytest.mark.parametrize("missing", ["url", "events"])
def test_new_endpoint_needs_an_address_and_events(world: World, missing: str) -> None:
    refusal = answer(world, "POST", body={name: value for name, value in NEW.items() if name != missing})
    assert (refusal.status_code, refusal.json["field"]) == (422, missing)


def test_address_inside_can_be_allowed(make_world: Make) -> None:
    world = make_world(GIFTCARD_ALLOWED_NETWORKS="10.0.0.0/8")
    assert made(world, url="http://10.1.2.3:8080/")["enabled"]


def test_one_address_is_one_endpoint_of_a_tenant(world: World) -> None:
    first, second = made(world), made(world, url="https://example.com/b")
    assert made(world, tenant_id="acme")["url"] == URL
    for refusal in (answer(world, "POST", body=NEW), answer(world, "PATCH", f"/{second['id']}", {"url": URL})):
        assert (refusal.status_code, refusal.json["field"]) == (409, "url")
        assert refusal.json["title"] == f"webhook endpoint {first['id']} of this tenant has this address already"
    assert ask(world, "PATCH", f"/{first['id']}", {"url": URL})["url"] == URL


def test_tenant_has_at_most_20(world: World) -> None:
    for number in range(20):
        made(world, url=f"https://example.com/{number}")
    refusal = answer(world, "POST", body=NEW)
    assert (refusal.status_code, refusal.json["field"]) == (409, "tenant_id")
    assert made(world, tenant_id="acme")["id"]


def test_two_that_are_made_at_once_are_made_one_after_the_other(database_url: str) -> None:
    with psycopg.connect(database_url) as open_one, psycopg.connect(database_url, autocommit=True) as other:
        first, second = Rows(open_one), Rows(other)
        refusals: list[str] = []

        def make_the_same() -> None:
            try:
                endpoint(second)
            except psycopg.Error as error:
                refusals.append(str(error.sqlstate))

        endpoint(first)
        with seen_waiting(make_the_same, at=second, holder=first, url=database_url):
            open_one.commit()
        assert refusals == ["GC409"]
        assert len(second.rows("select from giftcard_webhook_endpoints")) == 1


def test_pages_have_each_endpoint_once_the_newest_first(world: World) -> None:
    ids = [made(world, url=f"https://example.com/{number}", tenant_id=f"t{number % 2}")["id"] for number in range(5)]
    seen, older = [], ""
    while older is not None:
        page = ask(world, "GET", f"?limit=2{older and f'&older={older}'}")
        seen += [endpoint["id"] for endpoint in page["endpoints"]]
        older = page["older"]
    assert seen == ids[::-1]
    assert [endpoint["id"] for endpoint in ask(world, "GET", "?tenant_id=t1")["endpoints"]] == [ids[3], ids[1]]
    for query in ("limit=0", "limit=201", "older=0", "older=x", "colour=red", "limit=1&limit=2"):
        assert answer(world, "GET", f"?{query}").status_code == 422, query


def test_deleted_endpoint_is_gone(world: World) -> None:
    endpoint = made(world)
    assert ask(world, "DELETE", f"/{endpoint['id']}") == {"id": endpoint["id"], "deleted": True}
    assert ask(world, "GET") == {"endpoints": [], "older": None}


@pytest.mark.parametrize("number", ["7", "0", str(2**63), "9" * 40])
def test_endpoint_that_is_not_there_is_404_everywhere(world: World, number: str) -> None:
    calls = [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/rotate-secret"), ("POST", "/test")]
    for method, path in calls:
        refusal = answer(world, method, f"/{number}{path}", {"enabled": True} if method == "PATCH" else None)
        assert refusal.status_code == 404, (method, path)
        assert refusal.content_type == "application/problem+json"


def test_rotation_tells_the_new_secret_and_how_long_the_former_one_signs(world: World) -> None:
    endpoint = made(world)
    path = f"/{endpoint['id']}/rotate-secret"
    rotated = ask(world, "POST", path, {"former_hours": 2})
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != endpoint["secret"]
    left = (
        "select extract(epoch from previous_secret_until - clock_timestamp())::float8 from giftcard_webhook_endpoints"
    )
    assert 7100 < world.value(left) <= 7200
    assert ask(world, "GET", f"/{endpoint['id']}")["previous_secret_until"] == rotated["previous_secret_until"]
    assert ask(world, "POST", path, {"former_hours": 0})["previous_secret_until"] is None
    for hours in (-1, 169, "1", None):
        assert answer(world, "POST", path, {"former_hours": hours}).status_code == 422, hours


def test_test_event_is_a_job_of_its_own_each_time(world: World) -> None:
    endpoint = made(world)
    sent = [ask(world, "POST", f"/{endpoint['id']}/test") for _ in range(2)]
    assert sent[0]["event_id"] != sent[1]["event_id"]
    job = world.job(sent[0]["job_id"])
    assert (job["stage"], job["circuit"]) == ("webhook", f"webhook:{endpoint['id']}")
    assert job["payload"]["event_id"] == sent[0]["event_id"]


def test_endpoint_that_is_off_is_not_tested(world: World) -> None:
    endpoint = made(world, enabled=False)
    refusal = answer(world, "POST", f"/{endpoint['id']}/test")
    assert (refusal.status_code, refusal.json["field"]) == (409, "enabled")
    assert world.statuses() == {}


def test_without_encryption_keys_no_secret_is_made(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENCRYPTION_KEYS=None)
    refusal = answer(world, "POST", body=NEW)
    assert refusal.status_code == 409
    assert "GIFTCARD_ENCRYPTION_KEYS" in refusal.json["title"]


def test_only_operators_come_in(world: World) -> None:
    for token in (API, "wrong", ""):
        assert answer(world, "GET", token=token).status_code in (401, 403)
        assert answer(world, "POST", body=NEW, token=token).status_code in (401, 403)
    assert world.value("select count(*) from giftcard_webhook_endpoints") == 0
