"""Commands that do not exist: the error names the command to use, where there is one for the same act."""

import pytest

from tests.cli.conftest import Door

HINTS = {
    "schedule add": "schedules",
    "report list": "reports",
    "webhook list": "webhooks",
    "run": "tick",
    "retry 7": "requeue",
    "create": "enqueue",
    "schedules add": "schedules create",
    "schedules change 7": "schedules update",
    "reports make": "reports create",
    "webhooks add https://shop.example.com": "webhooks create",
    "webhooks set 7": "webhooks update",
}


@pytest.mark.parametrize(("typed", "command"), HINTS.items())
def test_another_name_of_a_command_is_answered_with_its_name(door: Door, typed: str, command: str) -> None:
    assert door.refuses(*typed.split()).endswith(f" jobs {command}")


def test_an_unknown_command_is_refused(door: Door) -> None:
    assert "No such command 'frobnicate'" in door.refuses("frobnicate")
    assert "jobs schedules --help" in door.refuses("schedules", "frobnicate")


@pytest.mark.parametrize(
    ("typed", "close"),
    {"list --staus error": "--status or --stage", "list --since 1": None, "schedules create --cron x": None}.items(),
)
def test_only_options_that_are_alike_are_suggested(door: Door, typed: str, close: str | None) -> None:
    error = door.refuses(*typed.split())
    assert error.endswith(f"; did you mean {close}?" if close else " --help)")
