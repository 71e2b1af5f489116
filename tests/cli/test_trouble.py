"""`stuck` and `errors`, the first commands of a night."""

from tests.cli.conftest import KATE, Door, dead_letters
from tests.support.world import World


def test_nothing_is_stuck(world: World, door: Door) -> None:
    assert door.says("stuck") == "Nothing is stuck.\n"
    assert door.json("stuck")["stuck"] == []


def test_what_is_stuck_ends_with_exit_code_1_and_names_the_commands(world: World, door: Door) -> None:
    world.tick()
    dead_letters(world, 3)
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage, scheduled_at)"
        " select i, 'payment', '2026-01-31 12:00:00.5Z' from generate_series(1, 1200) i"
    )
    result = door.run("stuck")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("queue payment, 1,000+ due since 2026-01-31 12:00:00Z: ")
    assert lines[1] == "  flask jobs doctor"
    assert lines[2].startswith("3 dead letters of email since ")
    assert lines[3] == "  flask jobs errors --stage email"
    assert len(lines) == 4
    assert [thing["kind"] for thing in door.json_of_failure("stuck")["stuck"]] == ["due", "dead"]


def test_one_dead_letter_is_counted_in_the_singular(world: World, door: Door) -> None:
    world.tick()
    dead_letters(world, 1)
    assert door.run("stuck").stdout.startswith("1 dead letter of email since ")


def test_errors_are_grouped_with_the_commands_that_help(world: World, door: Door) -> None:
    assert door.says("errors") == "There are no errors.\n"
    dead_letters(world, 2, error=f"PermanentError: {KATE} is refused by mx7.example.com")
    text = door.says("errors")
    assert "2      email  PermanentError: [email] is refused by [host]  " in text
    assert "next: flask jobs show 2" in text
    assert (
        "next: flask jobs requeue --stage email --error-kind 'PermanentError: [email] is refused by [host]' --dry-run"
        in text
    )
    assert KATE not in door.says("errors", "--since", "2020-01-01T00:00:00Z", "--json") + text
    assert "--stage must" in door.refuses("errors", "--stage", "E", "--limit", 0)


def test_bad_seconds_are_refused(door: Door) -> None:
    assert "--due-seconds must" in door.refuses("stuck", "--due-seconds", -1, "--snoozed-seconds", "x")
