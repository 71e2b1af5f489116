"""Every command on a narrow terminal: what people read wraps at words, what they copy is whole."""

import re
from collections.abc import Iterator

import click
import pytest

from lib.cli import jobs
from lib.cli.layout import COMMAND, cell_width
from tests.cli.conftest import Door, Terminal
from tests.support.world import World

ARGUMENTS = {
    "job_id": ["1"],
    "job_ids": ["1"],
    "schedule_id": ["1"],
    "endpoint_id": ["1"],
    "operation_id": ["1"],
    "batch_id": ["1"],
    "batch": ['{"open": true}'],
    "members": ["[]"],
    "operation": ["cancel"],
    "correlation_id": ["a-1"],
    "stage": ["email"],
    "name": ["a-long-name-of-something-that-does-not-exist"],
    "expression": ["not an expression of a schedule"],
    "address": ["http://shop.example.com/a/path/that/is/not/encrypted"],
    "kind": ["card_of_cancelled_order"],
    "reference": ["payment-4711"],
    "amount": ["2500"],
    "text": ["kate@example.com"],
    "limit_kind": ["tenant"],
    "limit_name": ["email"],
    "file": ["tests/cli/conftest.py"],
}
# It would go on until a key is pressed.
OPTIONS = {"top": ["--once"]}
# They wait, send, or print what is no text.
NOT_HERE = {"tick", "test mail", "test alert"}


def commands(group: click.Group = jobs, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*path, name), command


def unbreakable(line: str) -> bool:
    """Whether nothing in a line could have been wrapped: one word or command, after the name of a value."""
    value = re.sub(r"^[A-Za-z_ →]+: ", "", line.strip())
    return " " not in value or COMMAND.fullmatch(value) is not None


def too_wide(screen: str, columns: int) -> list[str]:
    lines = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen).replace("\r", "\n").replace("[y/N]: ", "\n").split("\n")
    return [line for line in lines if cell_width(line) > columns and not unbreakable(line)]


@pytest.mark.parametrize("columns", [40, 80])
def test_no_command_prints_wider_than_its_terminal(busy: World, direct: Door, terminal: Terminal, columns: int) -> None:
    direct.says(
        "schedules",
        "create",
        "0 3 * * *",
        "--api",
        "https://93.184.215.14/ping",
        "--name",
        "a name with many words in it",
    )
    direct.says("webhooks", "create", "https://93.184.215.14/a/long/path", "--event", "job.dead_lettered")
    direct.says("tokens", "create", "grafana-of-the-operators", "--scope", "jobs:read")
    direct.says("operations", "create", "cancel", "--all", "--reason", "a reason with many words in it", "--yes")
    direct.says("batches", "create", '{"name": "a name with many words in it", "open": true}')
    direct.says("circuits", "--limit", "1")
    direct.says("reports", "create")
    reason = ("--reason", "a reason with many words in it")
    direct.says("limits", "set", "key", "a-long-name-of-a-customer", "--tenant", "acme", "--runs", "2", *reason)
    direct.says("limits", "set", "stage", "payment", "--rate", "10/s", "--burst", "20", "--for", "2h", *reason)
    wide = {}
    for path, command in commands():
        if " ".join(path) in NOT_HERE:
            continue
        words = [
            word for each in command.params if isinstance(each, click.Argument) for word in ARGUMENTS[str(each.name)]
        ]
        words += OPTIONS.get(" ".join(path), [])
        for extra in (["--help"], [], ["--nonsense"]):
            _, screen = terminal.run(direct.app, *path, *words, *extra, columns=columns, types="n\n")
            assert "Traceback" not in screen, screen
            if found := too_wide(screen, columns):
                wide[*path, *extra] = found
    assert wide == {}
