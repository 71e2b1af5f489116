"""Schedules changed, paused, run and looked at, over HTTP."""

import re

import pytest

from lib.schedules.planner import plan
from tests.support.pages import fenced
from tests.support.planning import planned
from tests.support.world import World
from tests.web.test_schedules import at_fault, call, create, show, world

__all__ = ["world"]


def test_a_change_leaves_the_rest_as_it_is(world: World) -> None:
    made = create(world, payload={"a": 1}, max_retry_count=3, name="x", pause_after_failures=2, retry_delays=[1, 2])
    changed = call(world, "PATCH", f"/{made['id']}", {"overlap_policy": "allow", "name": None}).json
    moving = ("version", "updated_at", "overlap_policy", "name")
    assert {n: changed[n] for n in changed if n not in moving} == {n: made[n] for n in made if n not in moving}
    assert (changed["overlap_policy"], changed["name"]) == ("allow", None)


def test_another_expression_moves_the_next_time(world: World) -> None:
    made = create(world)
    changed = call(world, "PATCH", f"/{made['id']}", {"schedule": "0 12 * * *", "timezone": "Asia/Tokyo"}).json
    assert changed["next_times"][0].endswith("T03:00:00+00:00")
    assert changed["next_at"] == changed["next_times"][0]


def test_a_plain_update_takes_effect_at_once_as_the_page_shows(world: World) -> None:
    made = create(world, schedule="0 0 1 1 *")
    (statement,) = [block for block in fenced("schedules", language="sql") if "update" in block]
    world.sql(re.sub(r"where id = \d+", f"where id = {made['id']}", statement))
    world.store.enqueue_occurrences(plan(world.store.due_schedules()))
    changed = show(world, made["id"])
    assert (changed["schedule"], changed["timezone"]) == ("0 4 * * *", "Europe/Berlin")
    assert len({time[:10] for time in changed["next_times"]}) == 5


def test_the_next_times_are_those_at_which_ticks_enqueue(world: World) -> None:
    # A clock is set back from 1:00 to 0:00.
    made = create(world, schedule="*/20 0 * * SUN", timezone="America/Havana")
    world.sql("update giftcard_schedules set next_at = '2024-11-03T04:20:00Z'")
    shown = show(world, made["id"])["next_times"]
    found, row = [], {"schedule": made["schedule"], "timezone": made["timezone"], "next_at": "2024-11-03T04:20:00Z"}
    for time in shown:
        changes = planned(**row, now=time)
        found += [job["scheduled_at"] for job in changes["jobs"]]
        row["next_at"] = changes["next_at"]
    assert found == [time.replace("+00:00", "Z") for time in shown]
    assert [time[11:16] for time in found] == ["04:20", "04:40", "05:00", "05:20", "05:40"]


def test_a_change_is_checked_like_a_new_one(world: World) -> None:
    made = create(world, missed_policy="one")
    path = f"/{made['id']}"
    assert at_fault(call(world, "PATCH", path, {"schedule": "@daily"}), 400) == "schedule"
    assert at_fault(call(world, "PATCH", path, {"stage": "unheard_of"}), 422) == "stage"
    assert at_fault(call(world, "PATCH", path, {"missed_policy": "all"}), 422) == "overlap_policy"
    assert at_fault(call(world, "PATCH", path, {"stage": "report", "api": {}}), 422) == "api"
    assert at_fault(call(world, "PATCH", path, {"tenant_id": "acme"}), 422) == "tenant_id"
    assert show(world, made["id"]) == made


def test_api_and_stage_replace_each_other(world: World) -> None:
    made = create(world, payload={"a": 1})
    path = f"/{made['id']}"
    changed = call(world, "PATCH", path, {"api": {"url": "https://example.com"}}).json
    assert (changed["stage"], changed["payload"]) == ("http_call", {"url": "https://example.com"})
    assert call(world, "PATCH", path, {"stage": "report"}).json["stage"] == "report"


def test_pause_and_resume(world: World) -> None:
    made = create(world)
    path = f"/{made['id']}"
    paused = call(world, "POST", f"{path}/pause", {"by": "ann", "reason": "moving house"}).json
    assert (paused["status"], paused["paused_by"], paused["pause_reason"]) == ("paused", "ann", "moving house")
    assert (paused["next_at"], paused["next_times"]) == (None, [])
    # A change does not end the pause.
    assert call(world, "PATCH", path, {"schedule": "0 * * * *"}).json["next_at"] is None
    resumed = call(world, "POST", f"{path}/resume").json
    assert (resumed["status"], resumed["paused_by"]) == ("active", None)
    assert resumed["next_times"][0].endswith(":00:00+00:00")
    assert at_fault(call(world, "POST", f"{path}/resume"), 409) == "schedule_id"


def test_a_bad_row_is_shown_and_mended(world: World) -> None:
    made = create(world)
    path = f"/{made['id']}"
    world.sql("update giftcard_schedules set schedule = 'now and then', check_at = now()")
    world.store.enqueue_occurrences(plan(world.store.due_schedules()))
    assert "cannot be planned: schedule:" in show(world, made["id"])["pause_reason"]
    assert at_fault(call(world, "POST", f"{path}/resume"), 400) == "schedule"
    assert at_fault(call(world, "PATCH", path, {"name": "x"}), 400) == "schedule"
    call(world, "PATCH", path, {"schedule": "0 * * * *"})
    assert call(world, "POST", f"{path}/resume").json["status"] == "active"


def test_a_schedule_is_deleted_and_its_jobs_stay(world: World) -> None:
    made = create(world)
    job_id = call(world, "POST", f"/{made['id']}/run").json["job_id"]
    assert call(world, "DELETE", f"/{made['id']}").json == {"id": made["id"], "deleted": True}
    assert at_fault(call(world, "DELETE", f"/{made['id']}"), 404) == "schedule_id"
    assert world.job(job_id)["status"] == "queued"


# Running, looking


def test_run_makes_an_occurrence_whatever_the_policies_say(world: World) -> None:
    made = create(world, payload={"a": 1})
    path = f"/{made['id']}"
    call(world, "POST", f"{path}/pause", {"by": "ann"})
    jobs = [call(world, "POST", f"{path}/run") for _ in range(2)]
    assert [answer.status_code for answer in jobs] == [202, 202]
    rows = [world.job(answer.json["job_id"]) for answer in jobs]
    assert rows[0]["correlation_id"] != rows[1]["correlation_id"]
    assert all(row["payload"] == {"a": 1} and row["trigger_type"] == "schedule" for row in rows)
    found = show(world, made["id"])
    assert (found["status"], found["unfinished"], found["last_job"]["id"]) == ("paused", 2, rows[1]["id"])
    assert world.run().completed == 2
    assert show(world, made["id"])["unfinished"] == 0


def test_run_is_the_one_run_of_a_schedule_that_runs_once(world: World) -> None:
    made = create(world, is_recurring=False)
    call(world, "POST", f"/{made['id']}/run")
    assert show(world, made["id"])["next_at"] is None
    world.run()
    assert at_fault(call(world, "GET", f"/{made['id']}"), 404) == "schedule_id"
    assert call(world, "GET").json["schedules"] == []


def test_run_of_one_that_no_tick_has_planned_leaves_its_times_to_the_next_tick(world: World) -> None:
    made = world.sql("insert into giftcard_schedules (schedule, stage) values ('0 * * * *', 'report') returning id")
    call(world, "POST", f"/{made[0]['id']}/run")
    world.store.enqueue_occurrences(plan(world.store.due_schedules()))
    assert show(world, made[0]["id"])["next_times"]


@pytest.mark.parametrize("column", ["next_at", "last_at", "created_at"])
@pytest.mark.parametrize("time", ["infinity", "4000-01-01 BC", "20000-01-01"])
def test_run_does_not_read_the_times_of_a_row(world: World, column: str, time: str) -> None:
    made = create(world)
    world.sql(f"update giftcard_schedules set {column} = %s", time)
    assert call(world, "POST", f"/{made['id']}/run").status_code == 202


def test_run_is_followed_by_no_occurrence_while_its_job_has_not_ended(world: World) -> None:
    made = create(world)
    call(world, "POST", f"/{made['id']}/run")
    world.sql("update giftcard_schedules set next_at = next_at - interval '10 seconds', check_at = now()")
    world.store.enqueue_occurrences(plan(world.store.due_schedules()))
    assert show(world, made["id"])["skipped"] == 1


def test_occurrences_are_told_the_newest_first_without_personal_data(world: World) -> None:
    made = create(world, payload={"to": "kate@example.com"})
    path = f"/{made['id']}"
    first, second = (call(world, "POST", f"{path}/run").json["job_id"] for _ in range(2))
    world.sql(
        "update giftcard_jobs set status = 'error', last_error = 'kate@example.com is refused' where id = %s", first
    )
    found = call(world, "GET", f"{path}/occurrences").json["occurrences"]
    assert [o["id"] for o in found] == [second, first]
    assert world.job(second)["correlation_id"] == f"schedule:{made['id']}:{found[0]['time']}"
    assert (found[1]["status"], found[1]["last_error"]) == ("error", "[email] is refused")
    assert len(call(world, "GET", f"{path}/occurrences", limit=1).json["occurrences"]) == 1
    assert show(world, made["id"])["payload"] == {"to": "[email]"}
    assert show(world, made["id"], reveal="true")["payload"] == {"to": "kate@example.com"}
    assert world.value("select subject from giftcard_audit") == f"schedule {made['id']}"


def test_a_list_is_turned_page_by_page_and_filtered(world: World) -> None:
    ids = [create(world, name=f"n{n}", tenant_id="acme" if n % 2 else "default")["id"] for n in range(5)]
    page = call(world, "GET", limit=2).json
    assert [s["id"] for s in page["schedules"]] == ids[:2:-1]
    rest = call(world, "GET", limit=3, older=page["older"]).json
    assert ([s["id"] for s in rest["schedules"]], rest["older"]) == (ids[2::-1], None)
    assert [s["name"] for s in call(world, "GET", tenant_id="acme").json["schedules"]] == ["n3", "n1"]
    assert [s["name"] for s in call(world, "GET", name="n2").json["schedules"]] == ["n2"]
    call(world, "POST", f"/{ids[0]}/pause", {"by": "ann"})
    assert [s["id"] for s in call(world, "GET", status="paused").json["schedules"]] == ids[:1]
    assert at_fault(call(world, "GET", status="ill"), 422) == "status"


@pytest.mark.parametrize("path", ["/0", "/99999999999999999999", "/4711"])
def test_a_schedule_that_does_not_exist_is_a_404(world: World, path: str) -> None:
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("POST", "/resume"), ("GET", "/occurrences")):
        assert at_fault(call(world, method, path + end), 404) == "schedule_id"
    assert at_fault(call(world, "PATCH", path, {}), 404) == "schedule_id"
    assert at_fault(call(world, "POST", f"{path}/pause", {"by": "ann"}), 404) == "schedule_id"
