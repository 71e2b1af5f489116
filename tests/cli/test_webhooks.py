"""Webhook endpoints from a terminal: on the database, and through the API."""

import pytest

from tests.cli.conftest import NOT_A_TERMINAL, Door, Terminal

URL = "https://shop.example.com/hooks"
EVENTS = ("--event", "giftcard.issued", "--event", "report.ready")


def test_endpoint_is_added_shown_changed_and_deleted(door: Door) -> None:
    made = door.json("webhooks", "create", URL, *EVENTS, "--tenant", "acme")
    number = made["id"]
    assert (made["tenant_id"], made["url"], made["events"]) == ("acme", URL, ["giftcard.issued", "report.ready"])
    assert made.pop("secret").startswith("whsec_")
    assert door.json("webhooks", "show", number) == made
    assert door.json("webhooks", "list", "--tenant", "acme") == {"endpoints": [made], "older": None}
    assert door.json("webhooks", "update", number, "--off")["enabled"] is False
    changed = door.json("webhooks", "update", number, "--on", "--address", f"{URL}/2", "--event", "job.completed")
    assert (changed["enabled"], changed["url"], changed["events"]) == (True, f"{URL}/2", ["job.completed"])
    assert door.json("webhooks", "delete", number, "--yes") == {"id": number, "deleted": True}
    assert door.json("webhooks", "list") == {"endpoints": [], "older": None}


def test_secret_is_told_when_it_is_made_and_never_again(door: Door) -> None:
    said = door.says("webhooks", "create", URL, *EVENTS)
    number = door.json("webhooks", "list")["endpoints"][0]["id"]
    assert "it is not printed again: whsec_" in said
    assert f"flask jobs webhooks test {number}" in said
    rotated = door.says("webhooks", "rotate-secret", number, "--former-hours", "1.5")
    assert "it is not printed again: whsec_" in rotated
    assert "The previous secret also signs until 20" in rotated
    for words in (["show", number], ["list"], ["update", number, "--event", "job.completed"]):
        assert "whsec_" not in door.says("webhooks", *words)


def test_test_event_says_which_job_sends_it(door: Door) -> None:
    number = door.json("webhooks", "create", URL, *EVENTS)["id"]
    sent = door.json("webhooks", "test", number)
    assert door.world.job(sent["job_id"])["circuit"] == f"webhook:{number}"
    assert "sends event msg_" in door.says("webhooks", "test", number)
    door.says("webhooks", "update", number, "--off")
    assert "is off (turned off by hand): turn it on first" in door.refuses("webhooks", "test", number)


def test_list_says_how_to_turn_the_page(door: Door) -> None:
    for number in range(3):
        door.json("webhooks", "create", f"{URL}/{number}", *EVENTS)
    said = door.says("webhooks", "list", "--limit", "2")
    command = said.split("older: flask jobs ")[1].split()
    words = command[command.index("webhooks") :]
    assert f"{URL}/0" in door.says(*words)
    assert f"{URL}/0" not in said


def test_nothing_is_deleted_unless_somebody_says_so(door: Door, terminal: Terminal) -> None:
    number = door.json("webhooks", "create", URL, *EVENTS)["id"]
    assert door.refuses("webhooks", "delete", number) == NOT_A_TERMINAL
    code, screen = terminal.run(door.app, *door.before[1:], "webhooks", "delete", number, types="n\n")
    assert (code, f"Delete the webhook endpoint {URL}?" in screen) == (2, True)
    assert door.json("webhooks", "show", number)["id"] == number


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", URL], "--events"),
        (["create", URL, "--event", "giftcard.lost"], "--events"),
        (["create", "http://127.0.0.1/", *EVENTS], "must have a public address"),
        (["create", "shop.example.com", *EVENTS], "URL must be an http or https URL"),
        (["update", "1", "--address", "shop.example.com"], "--address must be an http or https URL"),
        (["update", "1"], "give at least one of url, events, enabled"),
        (["show", "7"], "webhook endpoint 7 does not exist"),
        (["show", "x"], "is not an id"),
        (["rotate-secret", "1", "--former-hours", "often"], "--former-hours"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else None,
)
def test_wrong_word_is_refused_with_one_sentence(door: Door, words: list[str], said: str) -> None:
    assert said in door.refuses("webhooks", *words)
