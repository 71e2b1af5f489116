"""The schedules' doors."""

import itertools
import json
import re
from datetime import datetime
from typing import Any

import pytest
from werkzeug.test import TestResponse

from lib.job import Complete, Outcome
from lib.schedules.planner import plan
from tests.support.cases import CASES
from tests.support.pages import TEXTS, fenced
from tests.support.world import ADMIN, API, World, an_order, bearer

PATH = "/api/v1/schedules"


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def world(make_world: Any) -> World:
    made: World = make_world(handlers={"report": quick, "http_call": quick})
    return made


def call(world: World, method: str, path: str = "", body: Any = None, **query: Any) -> TestResponse:
    return world.client.open(PATH + path, method=method, json=body, headers=bearer(ADMIN), query_string=query)


def create(world: World, **body: Any) -> dict[str, Any]:
    answer = call(world, "POST", body={"schedule": "*/10 * * * * *", "stage": "report"} | body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json
    return made


def show(world: World, schedule_id: int, **query: Any) -> dict[str, Any]:
    answer = call(world, "GET", f"/{schedule_id}", **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def at_fault(answer: TestResponse, status: int) -> str | None:
    """The field that a refusal names."""
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json"), answer.text
    field: str | None = answer.json.get("field")
    return field


def seconds_between(times: list[str]) -> set[float]:
    moments = [datetime.fromisoformat(time) for time in times]
    return {(later - earlier).total_seconds() for earlier, later in itertools.pairwise(moments)}


# Making


def test_a_schedule_is_told_with_its_next_five_times(world: World) -> None:
    made = create(world, payload={"a": 1}, name="nightly", tenant_id="acme", max_retry_count=3)
    assert seconds_between(made["next_times"]) == {10}
    assert len(made["next_times"]) == 5
    assert made["next_at"] == made["next_times"][0]
    expected = {"schedule": "*/10 * * * * *", "timezone": "UTC", "stage": "report", "payload": {"a": 1}}
    expected |= {
        "name": "nightly",
        "tenant_id": "acme",
        "max_retry_count": 3,
        "type": "AT_LEAST_ONCE",
        "is_recurring": True,
    }
    expected |= {"status": "active", "missed_policy": "skip", "catch_up_seconds": 300, "overlap_policy": "skip"}
    expected |= {"missed": 0, "skipped": 0, "failures": 0, "unfinished": 0, "last_at": None, "last_job": None}
    assert {name: made[name] for name in expected} == expected
    assert show(world, made["id"]) == made


def test_the_body_of_the_contract_is_taken(world: World) -> None:
    made = create(world, timezone="UTC", payload={}, type="AT_MOST_ONCE", is_recurring=False, max_retry_count=5)
    row = world.sql("select semantics, is_recurring, max_attempts from giftcard_schedules where id = %s", made["id"])
    assert row == [{"semantics": "at_most_once", "is_recurring": False, "max_attempts": 6}]
    assert len(made["next_times"]) == 1


def test_what_the_page_shows_is_a_good_schedule(world: World) -> None:
    (body,) = re.findall(r"-d '(.*?)'", TEXTS["schedules"], re.DOTALL)
    create(world, **json.loads(body))
    world.sql(fenced("schedules", language="sql")[0])
    assert world.store.enqueue_occurrences(plan(world.store.due_schedules()))["paused"] == []
    assert world.value("select count(*) from giftcard_schedules where next_at > now()") == 2


def test_what_an_http_call_may_reach_is_checked_when_it_is_saved(make_world: Any) -> None:
    world = make_world()
    body = {"schedule": "0 * * * *", "api": {"url": "http://169.254.169.254/latest"}}
    assert at_fault(call(world, "POST", body=body), 422) == "api.url"
    for wrong in ("", "example.com", "ftp://example.com/", "https://u:p@example.com/", "http://10.0.0.1/"):
        assert at_fault(call(world, "POST", body=body | {"api": wrong}), 422) == "api.url"
    made = call(world, "POST", body=body | {"api": {"url": "https://example.com/"}}).json
    path = f"/{made['id']}"
    assert at_fault(call(world, "PATCH", path, {"api": {"url": "http://localhost/"}}), 422) == "api.url"


def test_api_is_the_payload_of_an_http_call(world: World) -> None:
    call_ = {"method": "POST", "url": "https://example.com/", "headers": {"a": "b"}, "body": {"c": 1}}
    body = {"schedule": "*/10 * * * * *", "timezone": "UTC", "api": call_, "type": "AT_LEAST_ONCE"}
    answer = call(world, "POST", body=body)
    assert (answer.json["stage"], answer.json["payload"]) == ("http_call", call_)
    assert at_fault(call(world, "POST", body=body | {"stage": "report"}), 422) == "api"


def test_api_may_be_the_url_alone(world: World) -> None:
    made = call(world, "POST", body={"schedule": "* * * * *", "api": "https://example.com/hook"}).json
    assert (made["stage"], made["payload"]) == ("http_call", {"url": "https://example.com/hook"})
    changed = call(world, "PATCH", f"/{made['id']}", {"api": "https://example.org/"}).json
    assert changed["payload"] == {"url": "https://example.org/"}


@pytest.mark.parametrize("expression", CASES["cron"]["refused"])
def test_an_expression_that_the_contract_refuses_is_a_400_that_names_the_field(world: World, expression: str) -> None:
    assert at_fault(call(world, "POST", body={"schedule": expression, "stage": "report"}), 400) == "schedule"
    assert world.value("select count(*) from giftcard_schedules") == 0


WRONG: list[tuple[dict[str, Any], int, str | None]] = [
    ({"timezone": "Mars/Base"}, 400, "timezone"),
    ({"timezone": ""}, 422, "timezone"),
    ({"schedule": None}, 422, "schedule"),
    ({"schedule": "* " * 200}, 422, "schedule"),
    ({"stage": "unheard_of"}, 422, "stage"),
    ({"stage": None}, 422, "stage"),
    ({"stage": None, "api": 7}, 422, "api"),
    ({"payload": []}, 422, "payload"),
    ({"type": "EXACTLY_ONCE"}, 422, "type"),
    ({"is_recurring": "yes"}, 422, "is_recurring"),
    ({"max_retry_count": 25}, 422, "max_retry_count"),
    ({"max_retry_count": -1}, 422, "max_retry_count"),
    ({"missed_policy": "some"}, 422, "missed_policy"),
    ({"missed_policy": "all"}, 422, "overlap_policy"),
    ({"catch_up_seconds": 0}, 422, "catch_up_seconds"),
    ({"missed_cap": 101}, 422, "missed_cap"),
    ({"overlap_policy": "both"}, 422, "overlap_policy"),
    ({"pause_after_failures": 0}, 422, "pause_after_failures"),
    ({"retry_delays": []}, 422, "retry_delays"),
    ({"ttr_seconds": 0}, 422, "ttr_seconds"),
    ({"ttrSeconds": 60}, 422, "ttrSeconds"),
    ({"name": "a\nb"}, 422, "name"),
    ({"tenant_id": ""}, 422, "tenant_id"),
    ({"colour": "red"}, 422, "colour"),
]


@pytest.mark.parametrize(("changes", "status", "field"), WRONG, ids=str)
def test_what_is_not_right_is_refused_by_its_name(
    world: World, changes: dict[str, Any], status: int, field: str | None
) -> None:
    answer = call(world, "POST", body={"schedule": "*/10 * * * * *", "stage": "report"} | changes)
    assert at_fault(answer, status) == field
    assert world.value("select count(*) from giftcard_schedules") == 0


def test_a_payload_that_its_stage_does_not_take_is_refused(make_world: Any) -> None:
    world = make_world()
    order = an_order(customer={"email": "nobody"})
    body = {"schedule": "0 * * * *", "stage": "customer_ingest", "payload": order}
    assert at_fault(call(world, "POST", body=body), 422) == "payload.customer.email"


def test_a_payload_that_is_nested_too_deeply_is_refused(world: World) -> None:
    deep: Any = 1
    for _ in range(120):
        deep = [deep]
    body = {"schedule": "* * * * *", "stage": "report", "payload": {"a": deep}}
    assert at_fault(call(world, "POST", body=body), 400) == "payload"


def test_a_name_belongs_to_one_schedule_of_a_tenant(world: World) -> None:
    create(world, name="nightly")
    create(world, name="nightly", tenant_id="acme")
    answer = call(world, "POST", body={"schedule": "* * * * *", "stage": "report", "name": "nightly"})
    assert at_fault(answer, 409) == "name"


@pytest.mark.parametrize("token", ["", API])
def test_schedules_are_the_operators_alone(world: World, token: str) -> None:
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", "/1"),
        ("PATCH", "/1"),
        ("DELETE", "/1"),
        ("POST", "/1/run"),
    ):
        answer = world.client.open(PATH + path, method=method, json={}, headers=bearer(token))
        assert answer.status_code in (401, 403)
