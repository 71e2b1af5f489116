"""Commands that do not exist: the error names the command to use, where there is one for the same act."""

import pytest

from tests.cli.conftest import Door
from tests.support.world import World

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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("orders", "record-event", "o", "refund", 100, "--event-id", "e"), "; did you mean refunded?"),
        (("orders", "accept", "paid_twise", "r", "--reason", "x"), "; did you mean paid_twice"),
        (("import-orders", "--from", "shopfy", "-"), "; did you mean shopify?"),
    ],
)
def test_a_wrong_word_has_the_closest_one(direct: Door, words: tuple[object, ...], hint: str) -> None:
    refusal = direct.refuses(*words)
    assert "it must be one of " in refusal
    assert hint in refusal


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("orders", "show", "", "--tenant", ""), ("--tenant", "CORRELATION_ID")),
        (("orders", "block", " ", "--tenant", " ", "--yes"), ("--tenant", "CORRELATION_ID")),
        (("cancel", "--flow", " ", "--tenant", " ", "--yes"), ("--flow", "--tenant")),
        (("erase-customer", "--flow", " ", "--tenant", " ", "--yes"), ("--tenant", "--flow")),
    ],
)
def test_two_wrong_identifiers_are_both_named(direct: Door, words: tuple[object, ...], names: tuple[str, str]) -> None:
    assert direct.refuses(*words) == "; ".join(f"{name} must have at least 1 character" for name in names)


def test_hints_repeat_the_deployment_that_was_typed(world: World, remote: Door) -> None:
    world.add("email", {})
    world.tick()
    group, texts = f"flask jobs --url {remote.url} ", {}
    for words in ("status", "list --limit 1", "errors", "show 1", "stuck", "doctor", "cancel 1"):
        text = texts[words] = remote.run("--url", remote.url, *words.split()).output
        assert text.count("flask jobs ") == text.count(group), text
    assert [words for words in ("show 1", "stuck", "cancel 1") if group not in texts[words]] == []


def test_hints_are_short_with_the_variable(world: World, remote: Door) -> None:
    world.add("email", {})
    world.tick()
    text = remote.run("stuck").stdout
    assert "flask jobs " in text
    assert "--url" not in text
