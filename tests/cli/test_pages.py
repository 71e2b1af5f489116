"""Lists that are cut print the command for the rest, and that command is the next page: on both ways to the data."""

import shlex

import pytest

from tests.cli.conftest import Door


def a_schedule_with_runs(door: Door) -> None:
    door.world.sql("insert into public.giftcard_schedules (schedule, stage) values ('* * * * *', 'email')")
    door.world.sql("insert into public.giftcard_schedules (schedule, stage) values ('1 * * * *', 'email')")
    door.world.sql(
        "insert into public.giftcard_jobs (id, correlation_id, stage, trigger_type) overriding system value"
        " values (1, 'schedule:1:2026-01-01T00:00:00Z', 'email', 'schedule')"
    )
    door.world.sql(
        "insert into public.giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
        " finished_at, error) select 1, n, n, 'email', 'FAILED', now(), now(), now(),"
        " 'E: run ' || n || ' kate@example.com' from generate_series(1, 12) n"
    )
    door.world.sql(
        "insert into public.giftcard_circuits (circuit, failures) select 'c ' || n, 1 from generate_series(1, 3) n"
    )


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        (("history", 1, "--limit", 11), "E: run 2 [email]", "E: run 1 [email]"),
        (("show", 1), "E: run 3 [email]", "E: run 2 [email]"),
        (("schedules", "history", 1, "--limit", 11), "E: run 2 [email]", "E: run 1 [email]"),
        (("circuits", "--limit", 2), "c 2", "c 3"),
        (("schedules", "list", "--limit", 1), "1 * * * *", "* * * * *"),
    ],
)
def test_the_printed_command_is_the_next_page(door: Door, words: tuple[object, ...], first: str, second: str) -> None:
    a_schedule_with_runs(door)
    said = door.says(*words)
    command = shlex.split(said.split("older: flask jobs ")[1].splitlines()[0])
    rest = door.says(*command)
    assert (first in said, second in rest) == (True, True)
    assert "older:" not in rest
    assert first not in rest


def test_runs_of_a_schedule_have_attempt_and_retry(door: Door) -> None:
    a_schedule_with_runs(door)
    page = door.json("schedules", "history", 1, "--limit", 1)
    (run,) = page["runs"]
    assert (run["job_id"], run["run_no"], run["attempt"], run["retry_count"]) == (1, 12, 12, 11)
    assert page["older"] == "2026-01-01T00:00:00Z/1/12"
    assert "has no run" in door.says("schedules", "history", 2)
    assert "does not exist" in door.refuses("schedules", "history", 3)
