"""An address of the alerts that is wrong is a channel that fails, and stops nothing."""

import json
from typing import Any

import pytest

from tests.support.alerts import ANN, KIM, Log, Make, Postbox, check, failures, open_circuits, texts
from tests.support.raw_server import Server
from tests.support.working import works
from tests.support.world import ADMIN, bearer, settings_of

WRONG: list[dict[str, Any]] = [
    {"GIFTCARD_ALERT_RECIPIENTS": recipients}
    for recipients in ("a-secret", "a-secret@", "a-secret@x.example;b@x.example", "Kim <a-secret@x.example>")
]
WRONG += [
    {"GIFTCARD_ALERT_RECIPIENTS": KIM, "SMTP_URL": "smtp://kim:a-secret@mail.invalid"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: " ".join(wrong.values())[:40])
def test_wrong_setting_is_a_channel_that_fails(
    make_world: Make, receiver: Server, postbox: Postbox, log: Log, wrong: dict[str, Any]
) -> None:
    good = {"SMTP_URL": postbox.url, "GIFTCARD_ALERT_RECIPIENTS": ANN, "GIFTCARD_ALERT_URL": receiver.url}
    world = make_world(handlers={"work": works}, **(good | wrong))
    open_circuits(world, "a")
    assert "failed" not in world.tick()["maintenance"].get("prune", {})
    (failure,) = failures(log)
    assert "a-secret" not in json.dumps(log())
    assert failure[0] in ("url", "mail 1")
    assert len(texts(receiver)) + len(postbox.subjects()) == 1
    assert world.client.get("/api/health/deep", headers=bearer(ADMIN)).status_code == 503


def test_wrong_addresses_among_good_ones(make_world: Make, postbox: Postbox, log: Log) -> None:
    many = ",".join(f"a{number}@ops.example" for number in range(20))
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=f"{ANN},,nobody, {many}")
    open_circuits(world, "a")
    assert check(world) == {"sent": 19, "failed": 3}
    assert ANN in postbox.subjects()
    assert sorted(failures(log)) == [
        ("mail 2", "PermanentError: address 2 of GIFTCARD_ALERT_RECIPIENTS is not a mail address"),
        ("mail 21", "PermanentError: GIFTCARD_ALERT_RECIPIENTS may have 20 addresses: use a mailing list"),
        ("mail 22", "PermanentError: GIFTCARD_ALERT_RECIPIENTS may have 20 addresses: use a mailing list"),
    ]


def test_without_a_channel_conditions_are_still_found(make_world: Make) -> None:
    world = make_world()
    open_circuits(world, "a")
    assert check(world) == {}
    response = world.client.get("/api/health/deep", headers=bearer(ADMIN))
    assert [alert["condition"] for alert in response.json["alerts"]] == ["circuit:a"]


def test_recipients_are_split_and_kept_as_they_are() -> None:
    settings = settings_of(GIFTCARD_ALERT_RECIPIENTS=f" {ANN},, nobody ,{ANN}")
    assert settings.giftcard_alert_recipients == (ANN, "nobody")
