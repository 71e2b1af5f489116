"""Limits from the command line, on the database and through the API."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Door
from tests.support.world import World

REASON = ("--reason", "the vendor asked")


def test_a_limit_is_set_listed_and_removed(door: Door, world: World) -> None:
    assert door.says("limits", "list").startswith("No limit")
    printed = door.says("limits", "set", "stage", "payment", "--rate", "30/m", "--burst", "5", "--runs", "2", *REASON)
    assert "stage payment: at most 2 at once, 0.5/s burst 5; to remove the limit: " in printed
    assert "limits remove stage payment" in printed
    listed = door.says("limits", "list")
    for text in ("stage payment", "0 of 2", "0.5/s burst 5", "the vendor asked"):
        assert text in listed, text
    (row,) = door.json("limits", "list")["limits"]
    assert (row["per_second"], row["burst"], row["until"], row["state"]) == (0.5, 5, None, "active")
    assert "stage payment" in door.says("status")
    assert "(at most 2 at once, 0.5/s burst 5) is removed" in door.says("limits", "remove", "stage", "payment")
    assert world.value("select count(*) from giftcard_limits") == 0
    acts = world.sql("select action, details ->> 'reason' as reason from giftcard_audit order by id")
    assert [(act["action"], act["reason"]) for act in acts] == [
        ("set_limit", "the vendor asked"),
        ("remove_limit", None),
    ]


def test_a_limit_of_a_tenant_ends_by_itself(door: Door) -> None:
    printed = door.says("limits", "set", "tenant", "email", "--tenant", "*", "--runs", "0", "--for", "2h")
    assert printed.startswith("email of each tenant: none starts until ")
    assert "limits remove tenant email --tenant '*'" in printed
    (row,) = door.json("limits", "list", "--kind", "tenant")["limits"]
    left = datetime.fromisoformat(row["until"]) - datetime.now(UTC)
    assert timedelta(hours=1.9) < left <= timedelta(hours=2.1)
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    door.says("limits", "set", "tenant", "email", "--tenant", "*", "--runs", "1", "--until", until)
    assert door.json("limits", "list")["limits"][0]["until"].startswith(until[:16])


@pytest.mark.parametrize("rate", ["300/min burst 7", "5 per second, burst 7", "18000/h burst 7"])
def test_a_rate_is_written_as_in_the_settings(door: Door, rate: str) -> None:
    assert "stage email: 5/s burst 7;" in door.says("limits", "set", "stage", "email", "--rate", rate)


def test_a_limit_of_nothing_has_a_warning(door: Door) -> None:
    assert "It has no end: give --for or --until" in door.says("limits", "set", "stage", "email", "--runs", "0")


def test_pages_continue_where_the_last_one_ended(door: Door) -> None:
    for name in ("a", "b", "c"):
        door.says("limits", "set", "tenant", "email", "--tenant", name, "--runs", "2")
    first = door.json("limits", "list", "--limit", "2")
    assert [row["tenant_id"] for row in first["limits"]] == ["a", "b"]
    second = door.json("limits", "list", "--older", first["older"])
    assert ([row["tenant_id"] for row in second["limits"]], second["older"]) == (["c"], None)
    assert "--older" in door.says("limits", "list", "--limit", "2")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stage", "emial", "--runs", "2"], "there is no stage emial; did you mean email?"),
        (["circuit", "http_cal:host", "--runs", "2"], "there is no stage http_cal"),
        (["colour", "email", "--runs", "2"], "it must be one of stage, circuit, tenant, key"),
        (["stage", "email"], "a limit needs runs, --rate or both"),
        (["stage", "email", "--runs", "-1"], "--runs"),
        (["stage", "email", "--runs", "10001"], "--runs"),
        (["stage", "email", "--runs", "2", "--burst", "2"], "give --rate, too"),
        (["stage", "email", "--runs", "2", "--tenant", "acme"], "leave out --tenant"),
        (["tenant", "email", "--runs", "2"], "--tenant must be a tenant, or * for each tenant"),
        (["key", "customer-7", "--runs", "2"], "--tenant must be the tenant whose jobs have this key"),
        (["stage", "email", "--rate", "10"], "--rate: '10' is not a number of starts"),
        (["stage", "email", "--rate", "fast"], "--rate: 'fast' is not a number of starts"),
        (["stage", "email", "--rate", "0/s"], "--rate"),
        (["stage", "email", "--rate", "10/s burst 2", "--burst", "3"], "--burst: the rate has a burst already"),
        (["stage", "email", "--runs", "2", "--for", "2 hours"], "--for: '2 hours' is not a time"),
        (["stage", "email", "--runs", "2", "--for", "0h"], "--for"),
        (["stage", "email", "--runs", "2", "--until", "2020-01-01T00:00:00Z"], "until must be a time in the future"),
    ],
)
def test_bad_input_is_one_sentence(door: Door, words: list[str], sentence: str) -> None:
    assert sentence in door.refuses("limits", "set", *words)


def test_a_limit_that_is_not_there_is_not_removed(door: Door) -> None:
    assert "there is no limit stage email" in door.refuses("limits", "remove", "stage", "email")
