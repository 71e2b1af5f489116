"""Ticks let what has ended leave, after the settings; people see where it went, and bring it back."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.tick.pruning import preview, prune, prune_all
from tests.support.world import ADMIN, World, an_order, bearer

Make = Callable[..., World]

DAY = 86_400.0
KINDS = ("jobs", "history", "ticks", "circuit_changes", "archive")


@pytest.fixture
def done(world: World) -> str:
    """An order that went all the way; its correlation id."""
    world.submit(an_order(correlation_id="order-1"))
    while world.tick()["started"]:
        pass
    assert world.statuses() == {"completed": 5}
    return "order-1"


def pruned(world: World) -> dict[str, int]:
    """What a tick's housekeeping has let go, without the kinds that are none."""
    report = world.tick()["maintenance"]["prune"]
    assert set(report) == set(KINDS)
    return {kind: number for kind, number in report.items() if number}


def test_tick_lets_finished_orders_leave_after_thirty_days(world: World, done: str) -> None:
    world.move(29.9 * DAY)
    assert pruned(world) == {}
    world.move(0.1 * DAY)
    found = pruned(world)
    assert found.pop("ticks") >= 2
    assert found == {"jobs": 5}
    counts = world.row_counts()
    assert (counts["giftcard_jobs"], counts["giftcard_jobs_archive"], counts["giftcard_job_history"]) == (0, 5, 5)


def test_pruning_is_a_chore_of_every_ten_minutes(world: World) -> None:
    assert "prune" in world.tick()["maintenance"]
    assert "prune" not in world.tick()["maintenance"]
    world.move(600)
    assert "prune" in world.tick()["maintenance"]


def test_runs_leave_after_ninety_days_and_the_archive_after_a_year(world: World, done: str) -> None:
    world.move(30 * DAY)
    pruned(world)
    world.move(60 * DAY)
    assert pruned(world)["history"] == 5
    world.move(305 * DAY)
    assert pruned(world)["archive"] == 5
    assert world.row_counts()["giftcard_jobs_archive"] == 0


def test_orders_cards_and_effects_stay(world: World, done: str) -> None:
    before = world.row_counts()
    for _ in range(3):
        world.move(400 * DAY)
        pruned(world)
    kept = ("orders", "customers", "payments", "cards", "effects", "audit")
    after = world.row_counts()
    assert {name: after[f"giftcard_{name}"] for name in kept} == {name: before[f"giftcard_{name}"] for name in kept}
    flow = world.flow(done)
    assert (flow["jobs"], flow["card"]["amount"]) == ([], 2500)
    world.submit(an_order(correlation_id=done))
    assert world.row_counts()["giftcard_jobs"] == 0


@pytest.mark.parametrize(
    ("setting", "kind", "days"),
    [
        ("GIFTCARD_RETENTION_DAYS", "jobs", 30),
        ("GIFTCARD_HISTORY_DAYS", "history", 90),
        ("GIFTCARD_TICK_DAYS", "ticks", 30),
    ],
)
def test_each_limit_is_a_setting_and_nought_means_for_ever(
    make_world: Make, world: World, done: str, setting: str, kind: str, days: int
) -> None:
    for_ever, short = make_world(**{setting: 0}), make_world(**{setting: 2})
    world.move(2 * DAY)
    assert pruned(world) == {}
    world.move(600)
    assert pruned(short)[kind] >= 2
    world.move(999 * DAY)
    assert kind not in pruned(for_ever)


def test_dead_letters_have_a_setting_of_their_own(make_world: Make) -> None:
    world = make_world(GIFTCARD_DEAD_LETTER_DAYS=40)
    world.enqueue("email", status="error")
    world.move(39 * DAY)
    assert "jobs" not in pruned(world)
    world.move(1 * DAY)
    assert pruned(world)["jobs"] == 1


def test_chore_that_has_much_to_do_stops_in_time_and_goes_on_the_next_time(world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, updated_at)"
        " select n::text, 'email', 'completed', now() - interval '40 days' from generate_series(1, 1200) n"
    )
    assert prune(world.store, world.settings, budget=0)["jobs"] == 500
    assert preview(world.store, world.settings)["jobs"] == 700
    assert prune(world.store, world.settings, budget=30)["jobs"] == 700


def test_everything_at_once_begins_before_the_place_where_ticks_stand(world: World) -> None:
    old = world.enqueue("email", count=3, status="completed")
    world.sql("update giftcard_prune_cursors set job_id = %s where scan = 'jobs'", old[1])
    world.move(31 * DAY)
    assert prune_all(world.store, world.settings)["jobs"] == 3


# Over HTTP


def restore(world: World, job_id: int) -> Any:
    return world.client.post(f"/api/v1/jobs/{job_id}/restore", headers=bearer(ADMIN))


def show(world: World, job_id: int) -> dict[str, Any]:
    shown: dict[str, Any] = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN)).json
    return shown


def test_archived_job_is_shown_covered_and_restored(world: World, done: str) -> None:
    (job_id, *_) = (job["id"] for job in world.flow(done)["jobs"])
    before = show(world, job_id)
    world.move(30 * DAY)
    pruned(world)
    shown = show(world, job_id)
    assert (shown["status"], shown["waiting_for"]["reason"]) == ("completed", "archived")
    assert shown["payload"] == before["payload"]
    assert shown["payload"]["customer"]["email"] == "[email]"
    assert world.flow(done)["jobs"][0]["archived_at"] == shown["archived_at"]
    response = restore(world, job_id)
    assert (response.status_code, response.json) == (200, {"id": job_id, "status": "completed", "restored": True})
    assert show(world, job_id)["archived_at"] is None
    history = world.client.get(f"/api/v1/jobs/{job_id}/history", headers=bearer(ADMIN)).json["runs"]
    assert [run["status"] for run in history] == ["SUCCESS"]


def test_what_cannot_be_restored_is_a_problem(world: World) -> None:
    (here,) = world.enqueue("email")
    for job_id, status in ((here, 409), (4711, 404), (2**63, 404)):
        response = restore(world, job_id)
        assert (response.status_code, response.json["field"]) == (status, "job_id")
    assert world.client.post("/api/v1/jobs/1/restore").status_code == 401


def test_archived_job_is_not_requeued(world: World) -> None:
    (job_id,) = world.enqueue("email", status="cancelled")
    world.move(30 * DAY)
    pruned(world)
    response = world.client.post(f"/api/v1/jobs/{job_id}/requeue", headers=bearer(ADMIN))
    assert (response.status_code, response.json["title"]) == (409, f"job {job_id} is archived: restore it first")


def test_pass_that_is_not_over_goes_on_in_the_next_tick(
    world: World, done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.pruning._BUDGET", 0)
    monkeypatch.setattr("lib.tick.pruning._STEP", 2)
    monkeypatch.setattr(prune, "__kwdefaults__", {"budget": 0})
    world.move(31 * DAY)
    ticks = 0
    while "prune" in (report := world.tick()["maintenance"]):
        assert report["prune"]["jobs"] <= 2
        ticks += 1
    assert ticks >= 3
    assert world.row_counts()["giftcard_jobs"] == 0


def test_job_that_another_table_refers_to_keeps_no_other_from_leaving(world: World, done: str) -> None:
    world.move(31 * DAY)
    kept = world.value("select min(id) from giftcard_jobs")
    world.sql("create table notes (job_id bigint references giftcard_jobs (id))")
    world.sql("insert into notes values (%s)", kept)
    assert pruned(world)["jobs"] == 4
    assert world.sql("select id from giftcard_jobs") == [{"id": kept}]
    (fault,) = world.sql("select kind, row_id, error from giftcard_faulty_rows")
    assert (fault["kind"], fault["row_id"]) == ("prune", f"job {kept}")
    assert "violates foreign key constraint" in fault["error"]


@pytest.mark.parametrize("table", ["giftcard_job_history", "giftcard_ticks", "giftcard_jobs_archive"])
def test_kind_that_cannot_be_pruned_stops_no_other(world: World, done: str, table: str) -> None:
    world.move(400 * DAY)
    world.sql("create function no() returns trigger language plpgsql as $$ begin raise exception 'not this'; end $$")
    world.sql(f"create trigger no before delete on {table} for each row execute function no()")
    assert pruned(world)["jobs"] == 5
    world.move(400 * DAY)
    pruned(world)
    kind = {"giftcard_job_history": "history", "giftcard_ticks": "ticks", "giftcard_jobs_archive": "archive"}[table]
    assert world.sql("select kind, row_id from giftcard_faulty_rows") == [{"kind": "prune", "row_id": kind}]
    counts = world.row_counts()
    left = {name: counts[name] for name in ("giftcard_jobs", "giftcard_job_history", "giftcard_jobs_archive")}
    assert [name for name, count in left.items() if count] == ([table] if table in left else [])
