"""Whose fault an SQLSTATE is: the database's, which ends the call, or perhaps one row's."""

import pytest

from tests.support.factory import World


@pytest.mark.parametrize("state", ["08006", "40001", "40P01", "53100", "57014", "57P01", "25006", "55P03"])
def test_database_is_unavailable(world: World, state: str) -> None:
    assert world.ask("is_unavailable", sqlstate=state) is True


@pytest.mark.parametrize(
    "state", ["55000", "55006", "55P02", "55P04", "25001", "25P02", "23514", "P0001", "27000", "XX000"]
)
def test_row_may_be_at_fault(world: World, state: str) -> None:
    assert world.ask("is_unavailable", sqlstate=state) is False


def test_claim_one_by_one_survives_a_sequence_that_was_not_asked(world: World) -> None:
    jobs = [world.enqueue() for _ in range(3)]
    world.run("create sequence public.own")
    world.run(
        "create function public.own() returns trigger language plpgsql as"
        " $$ begin perform currval('public.own'); return new; end $$"
    )
    world.run(
        "create trigger own before update on giftcard_jobs for each row"
        f" when (new.id = {jobs[0]} and new.status = 'running') execute function public.own()"
    )
    assert [job.id for job in world.claim(limit=5, one_by_one=True)] == jobs[1:]
    assert "(SQLSTATE 55000)" in world.job(jobs[0])["last_error"]
