"""Pruning by hand, and the way back."""

import pytest

from tests.cli.conftest import KATE, NOT_A_TERMINAL, Door, Terminal
from tests.support.world import World

DAY = 86_400.0


@pytest.fixture
def old(world: World) -> list[int]:
    """Three jobs that ended so long ago that they may leave."""
    kate = {"customer": {"email": KATE}}
    ids = [world.add("email", kate, status=status) for status in ("completed", "completed", "cancelled")]
    world.move(31 * DAY)
    return ids


def archive(world: World, direct: Door) -> None:
    direct.says("prune", "--yes")
    assert world.row_counts()["giftcard_jobs"] == 0


def test_what_would_leave_is_counted_and_stays(world: World, direct: Door, old: list[int]) -> None:
    text = direct.says("prune", "--dry-run")
    assert text == "3 finished jobs would be removed: omit --dry-run to do it\n"
    answer = direct.json("prune", "--dry-run")
    none = dict.fromkeys(("history", "ticks", "circuit_changes", "archive"), 0)
    assert answer == {"jobs": 3, **none, "done": True, "dry_run": True}
    assert world.row_counts()["giftcard_jobs"] == 3


def test_nothing_leaves_unasked(world: World, direct: Door, old: list[int], terminal: Terminal) -> None:
    assert direct.refuses("prune") == NOT_A_TERMINAL
    code, screen = terminal.run(direct.app, "prune", types="n\n")
    assert "Remove 3 finished jobs" in screen
    assert (code, "nothing was changed" in screen, world.row_counts()["giftcard_jobs"]) == (2, True, 3)
    code, _ = terminal.run(direct.app, "prune", types="y\n")
    assert (code, world.row_counts()["giftcard_jobs"]) == (0, 0)


def test_all_of_it_leaves_at_once(world: World, direct: Door) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, updated_at)"
        " select n::text, 'email', 'completed', now() - interval '40 days' from generate_series(1, 2500) n"
    )
    assert "at least 1,000 finished jobs" in direct.says("prune", "--dry-run")
    assert direct.says("prune", "--yes").startswith("2,500 finished jobs removed")
    assert direct.says("prune") == "nothing is past its limit\n"


def test_what_is_old_behind_much_that_is_young_is_not_denied(world: World, direct: Door, terminal: Terminal) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage) select n::text, 'email' from generate_series(1, 10000) n"
    )
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, updated_at)"
        " values ('old', 'email', 'completed', now() - interval '40 days')"
    )
    assert direct.says("prune", "--dry-run") == "nothing among the oldest 10,000 is past its limit\n"
    assert "Remove what is past its limit" in terminal.run(direct.app, "prune", types="n\n")[1]
    assert direct.says("prune", "--yes").startswith("1 finished job removed")


def test_pruning_works_on_the_database_only(remote: Door) -> None:
    assert "prune works on the database only" in remote.refuses("prune", "--yes")


def test_archived_job_is_shown_and_brought_back(world: World, direct: Door, door: Door, old: list[int]) -> None:
    archive(world, direct)
    text = door.says("show", old[2])
    assert f"This job is archived; to restore it: flask jobs restore {old[2]}" in text
    assert "flask jobs requeue" not in text
    assert "archived_at" in text
    assert KATE not in text
    assert "is archived: restore it first" in door.refuses("requeue", old[2])
    assert door.says("restore", old[2]) == (
        f"job {old[2]} is restored with status cancelled; to run it again: flask jobs requeue {old[2]}\n"
    )
    assert "flask jobs requeue" in door.says("show", old[2])
    assert door.json("restore", old[0]) == {"id": old[0], "status": "completed", "restored": True}
    assert "is not archived: there is nothing to restore" in door.refuses("restore", old[0])
    assert "job 4711 is not in the archive" in door.refuses("restore", 4711)


def test_person_is_found_by_an_order_that_has_left(world: World, direct: Door) -> None:
    world.submit({"customer": {"given_name": "Kate", "email": KATE}, "amount": {"amount": 5, "currency": "USD"}})
    while world.tick()["started"]:
        pass
    world.move(31 * DAY)
    archive(world, direct)
    flow = world.value("select correlation_id from public.giftcard_orders")
    direct.says("erase-customer", "--flow", flow, "--yes")
    left = world.value("select string_agg(job::text, '') from public.giftcard_jobs_archive")
    assert "erased" in left
    assert KATE not in left
