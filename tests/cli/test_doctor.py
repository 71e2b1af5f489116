"""`flask jobs doctor`, and the same list in the status: on the database and through an API."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Door, NoDatabase, Served, Terminal
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
Serve = Callable[[Any], Served]


@pytest.fixture
def healthy(world: World) -> World:
    world.tick()
    return world


def behind_api(world: World, make_world: Make, serve: Serve) -> Door:
    """The way through the API of this world, from a machine without a database."""
    return Door(make_world(wire=NoDatabase()).app, world, url=serve(world.app).url)


def test_when_all_is_well_every_line_is_green_and_the_exit_code_0(healthy: World, door: Door) -> None:
    title, head, *lines, last = door.says("doctor").splitlines()
    assert (title, head.split()[0], last) == ("Checks", "check", "All is well.")
    assert len(lines) == 24
    assert all(re.match(r"green +\w+ +\S", line) for line in lines)


def test_a_red_line_ends_it_with_1_and_says_what_to_do_next(world: World, door: Door) -> None:
    result = door.run("doctor")
    assert (result.exit_code, result.stderr) == (1, "")
    (red,) = [line for line in result.stdout.splitlines() if line.startswith("red")]
    assert re.match(r"red +ticks +the clock has not called yet → deploy, then set URL .* and call it: curl", red)
    assert result.stdout.splitlines()[-1].startswith("1 check is red. Next, ticks: deploy, then set URL")


def test_a_yellow_line_says_what_to_do_next_and_ends_it_with_0(healthy: World, door: Door) -> None:
    healthy.sql("select giftcard_pause('email', 'kim')")
    last = door.says("doctor").splitlines()[-1]
    assert last == "1 check is yellow. Next, stages: to end a pause: flask jobs resume NAME"


def test_for_programs_it_is_one_value_with_the_same_exit_code(world: World, door: Door) -> None:
    result = door.run("doctor", "--json")
    assert result.exit_code == 1
    checks = json.loads(result.stdout)["checks"]
    assert [check["level"] for check in checks if check["check"] == "ticks"] == ["red"]
    assert all(set(check) == {"check", "level", "message", "fix"} for check in checks)


def test_the_status_carries_the_same_list(healthy: World, door: Door) -> None:
    def lines(checks: list[dict[str, str]]) -> list[str]:
        return [re.sub(r"\d+", "n", f"{sorted(check.items())}") for check in checks]

    checks = door.run("doctor", "--json")
    status = healthy.client.get("/api/status", headers=bearer(ADMIN)).json
    assert lines(status["doctor"]) == lines(json.loads(checks.stdout)["checks"])
    assert lines(door.json("status")["doctor"]) == lines(status["doctor"])


def test_the_status_shows_a_person_what_is_not_green(healthy: World, door: Door) -> None:
    assert "Doctor" not in door.says("status")
    healthy.sql("select giftcard_pause('email', 'kim')")
    assert re.search(r"Doctor\n.*\nyellow +stages +email is paused → to end a pause: flask", door.says("status"))


# Without a database


@pytest.fixture
def cut_off(make_world: Make) -> World:
    return make_world(DATABASE_URL="postgresql://kate:sesame@127.0.0.1:1/x", CRON_SECRET=None)


def names_of_red(stdout: str) -> list[str]:
    return re.findall(r"(?m)^red +(\w+)", stdout)


def test_without_a_database_the_other_checks_go_on(cut_off: World, make_world: Make, serve: Serve) -> None:
    for door in (Door(cut_off.app, cut_off), behind_api(cut_off, make_world, serve)):
        result = door.run("doctor")
        assert (result.exit_code, names_of_red(result.stdout)) == (1, ["secrets", "database"])
        assert "sesame" not in result.output


def test_the_status_without_a_database_is_503_and_carries_the_list(cut_off: World) -> None:
    answer = cut_off.client.get("/api/status", headers=bearer(ADMIN))
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert answer.json["title"] == "the database is away"
    assert [check["check"] for check in answer.json["doctor"] if check["level"] == "red"] == ["secrets", "database"]


def test_the_list_is_for_operators_only(cut_off: World) -> None:
    answer = cut_off.client.get("/api/status")
    assert (answer.status_code, "doctor" in answer.json) == (401, False)


def test_a_wrong_token_is_one_sentence(world: World, make_world: Make, serve: Serve) -> None:
    door = Door(make_world(wire=NoDatabase(), GIFTCARD_ADMIN_TOKEN="another").app, world, url=serve(world.app).url)
    assert "is no token of 127.0.0.1" in door.refuses("doctor")


def test_a_deployment_that_nobody_reaches_is_one_sentence(world: World, make_world: Make) -> None:
    door = Door(make_world(wire=NoDatabase()).app, world, url="http://127.0.0.1:1")
    assert "127.0.0.1 cannot be reached" in door.refuses("doctor", code=1)


def test_on_a_terminal_the_levels_have_their_colours(world: World, terminal: Terminal) -> None:
    code, screen = terminal.run(Door(world.app, world).app, "doctor")
    assert code == 1
    assert re.search(r"\x1b\[31mred *\x1b\[0m", screen)
    assert re.search(r"\x1b\[32mgreen *\x1b\[0m", screen)
