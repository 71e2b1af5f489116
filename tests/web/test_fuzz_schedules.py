"""Whatever is sent about schedules: never a 500, a refusal changes nothing, and what was taken can be planned."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.schedules.planner import plan
from tests.schedules.test_cron import expressions
from tests.support.world import World, an_order
from tests.web.test_fuzz import check, values, world

__all__ = ["world"]

pytestmark = pytest.mark.slow

PATH = "/api/v1/schedules"

many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

FIELDS = [
    "schedule", "timezone", "stage", "payload", "api", "type", "is_recurring", "max_retry_count", "retry_delays",
    "ttr_seconds", "missed_policy", "catch_up_seconds", "missed_cap", "overlap_policy", "pause_after_failures", "name",
    "tenant_id", "tenant_id", "priority", "colour",
]  # fmt: skip

likely = st.sampled_from(
    ["Europe/Berlin", "UTC", "posix", "all", "one", "queue", "allow", "AT_MOST_ONCE", "http_call", 1, 5, 60, False, {}]
)  # fmt: skip


@st.composite
def nearly_schedules(draw: st.DrawFn) -> dict[str, Any]:
    """A schedule with a few of its fields replaced."""
    body: dict[str, Any] = {"schedule": "0 * * * *", "stage": "payment", "payload": an_order()}
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        body[name] = draw(likely | values)
    if draw(st.booleans()):
        body["schedule"] = draw(expressions.map(" ".join) | st.text(max_size=30))
    return body


def sent(world: World, method: str, path: str, body: Any) -> Any:
    return check(world, method, path, data=json.dumps(body), content_type="application/json")


@many
@given(body=nearly_schedules() | values)
def test_new_schedules(world: World, body: Any) -> None:
    answer = sent(world, "POST", PATH, body)
    assert answer.status_code in (201, 400, 409, 422)
    if answer.status_code == 201:
        path = f"{PATH}/{answer.json['id']}"
        assert check(world, "GET", path).json["next_times"]
        # Its time comes.
        world.sql("update giftcard_schedules set next_at = now(), check_at = now() where id = %s", answer.json["id"])
        assert world.store.enqueue_occurrences(plan(world.store.due_schedules()))["paused"] == []
        assert check(world, "DELETE", path).status_code == 200


@many
@given(patch=nearly_schedules() | values, way=st.sampled_from(["", "/pause", "/resume", "/run"]), wish=values)
def test_changes(world: World, patch: Any, way: str, wish: Any) -> None:
    (made,) = world.sql("insert into giftcard_schedules (schedule, stage) values ('0 * * * *', 'payment') returning id")
    path = f"{PATH}/{made['id']}"
    sent(world, "PATCH", path, patch)
    if way:
        sent(world, "POST", path + way, wish)
    assert check(world, "GET", path).status_code == 200
    assert check(world, "GET", f"{path}/occurrences").status_code == 200
    world.sql("delete from giftcard_schedules")


@many
@given(
    query=st.dictionaries(
        st.sampled_from(["tenant_id", "name", "status", "limit", "older", "reveal", "window_seconds"]),
        st.text(max_size=20) | st.sampled_from(["1", "paused", "1e300", "nan"]),
        max_size=3,
    ),
    path=st.sampled_from([PATH, "/api/v1/precision", f"{PATH}/1", f"{PATH}/1/occurrences"]),
)
def test_questions(world: World, query: dict[str, str], path: str) -> None:
    check(world, "GET", path, query_string=query)
