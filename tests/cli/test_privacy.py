"""What is shown, and what is not: personal data, and the text of strangers."""

import json

import pytest

from tests.cli.conftest import KATE, Door, dead_letters
from tests.cli.test_inspect import command_after
from tests.support.world import World


@pytest.mark.parametrize("command", ["list", "show"])
def test_personal_data_is_covered(personal: int, door: Door, command: str) -> None:
    args = [command, personal] if command == "show" else [command]
    for text in (door.says(*args), door.says(*args, "--json")):
        assert KATE not in text
        assert "1111 1111" not in text
        assert "[email] does not take [card …1111]" in text
    assert door.world.sql("select * from public.giftcard_audit") == []


@pytest.mark.parametrize("command", ["list", "show"])
def test_reveal_shows_personal_data_and_is_written_down(personal: int, door: Door, command: str) -> None:
    args = [command, personal] if command == "show" else [command]
    assert KATE in door.says(*args, "--reveal", "--json")
    assert KATE in door.says(*args, "--reveal")
    audit = door.world.sql("select by, action, subject from public.giftcard_audit")
    assert [row["action"] for row in audit] == ["reveal", "reveal"]
    assert all(str(personal) in row["subject"] and row["by"] for row in audit)


def test_reveal_goes_on_with_the_next_page(world: World, direct: Door) -> None:
    dead_letters(world, 2)
    assert "--reveal" in command_after(direct.says("list", "--limit", 1, "--reveal"), "older")


def test_output_that_is_not_a_terminal_keeps_rows_whole(world: World, direct: Door) -> None:
    dead_letters(world, 1, error="x" * 490)
    (row,) = (line for line in direct.says("list").splitlines() if "dead-1" in line)
    assert "x" * 490 in row


def test_text_of_strangers_cannot_steer_a_terminal(world: World, door: Door) -> None:
    world.enqueue("email", correlation_id="\x1b[2Jred\u202e", last_error="\x1b]0;title\x07\n\nnext", status="error")
    for command in (["list"], ["show", 1], ["status"]):
        text = door.says(*command)
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert json.loads(door.says("list", "--json"))["jobs"][0]["correlation_id"].startswith("\x1b[2J")


@pytest.mark.parametrize("command", [("pause",), ("requeue",), ("show",), ("list", "--stage"), ("reset-circuit",)])
def test_no_error_repeats_a_token_that_was_pasted_in_the_wrong_place(door: Door, command: tuple[str, ...]) -> None:
    secret = door.world.settings.giftcard_admin_token
    assert secret is not None
    result = door.run(*command, secret.get_secret_value())
    assert result.exit_code == 2
    assert secret.get_secret_value() not in result.output


def test_the_reason_of_a_pause_is_stored_without_personal_data(door: Door) -> None:
    door.says("pause", "email", "--reason", "kate@example.com at https://kate:sesame@host with 4111 1111 1111 1111")
    (act,) = door.world.sql("select details ->> 'reason' as reason from giftcard_audit")
    assert act["reason"] == "[email] at https://[secret]@host with [card …1111]"
