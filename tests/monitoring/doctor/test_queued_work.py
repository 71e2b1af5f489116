"""Keys that open nothing, and stages that cannot run."""

import base64
from collections.abc import Callable

import pytest

from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.world import ENCRYPTION_KEY, World

Make = Callable[..., World]

OTHER_KEY = base64.urlsafe_b64encode(b"thirty-two bytes of another key!").decode()


def a_card(make_world: Make, **environ: str) -> None:
    """An order goes all its way under these keys."""
    world = make_world(**environ)
    world.submit()
    while world.tick()["started"]:
        pass
    assert set(world.statuses()) == {"completed"}


# Keys


@pytest.mark.parametrize("name", ["GIFTCARD_ENCRYPTION_KEYS", "GIFTCARD_LOOKUP_KEY"])
def test_a_key_that_is_missing_is_red(make_world: Make, examined: Examine, name: str) -> None:
    line = examined(make_world(**{name: None}))["keys"]
    assert (line["level"], line["message"]) == ("red", f"{name} is not set: no card can be issued or sent")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"GIFTCARD_ENCRYPTION_KEYS": "sesame"}, "encryption key 1 is not a Fernet key"),
        ({"GIFTCARD_ENCRYPTION_KEYS": f"{ENCRYPTION_KEY},sesame"}, "encryption key 2 is not a Fernet key"),
        ({"GIFTCARD_LOOKUP_KEY": "sesame-sesame-sesame"}, "shorter than 32 characters"),
    ],
)
def test_a_key_that_is_none_is_red(make_world: Make, examined: Examine, environ: dict[str, str], message: str) -> None:
    line = examined(make_world(**environ))["keys"]
    assert line["level"] == "red"
    assert message in line["message"]
    assert "sesame" not in str(line)


def test_a_wrong_key_does_not_open_the_newest_card(make_world: Make, examined: Examine) -> None:
    a_card(make_world)
    line = examined(make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY))["keys"]
    assert (line["level"], line["message"]) == ("red", "no key decrypts the newest card")


def test_a_rotated_key_opens_old_and_new(make_world: Make, examined: Examine) -> None:
    both = f"{OTHER_KEY},{ENCRYPTION_KEY}"
    a_card(make_world)
    a_card(make_world, GIFTCARD_ENCRYPTION_KEYS=both)
    assert examined(make_world(GIFTCARD_ENCRYPTION_KEYS=both))["keys"]["message"] == "the keys decrypt the cards"
    line = examined(make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY))["keys"]
    assert (line["level"], line["message"]) == ("red", "no key decrypts the oldest card")


def test_another_lookup_key_would_find_no_card(make_world: Make, examined: Examine) -> None:
    a_card(make_world)
    line = examined(make_world(GIFTCARD_LOOKUP_KEY="another-key-of-more-than-32-characters"))["keys"]
    assert line["level"] == "red"
    assert line["message"].startswith("GIFTCARD_LOOKUP_KEY does not match the newest card")


# Stages


def test_a_stage_that_lacks_a_setting_is_yellow_until_jobs_wait_for_it(make_world: Make, examined: Examine) -> None:
    world = make_world(GIFTCARD_MAIL_DIR=None)
    world.tick()
    assert levels(examined(world)) == {"stages": "yellow"}
    assert examined(world)["stages"]["message"] == (
        "email is parked until SMTP_URL is set; send_mail is parked until SMTP_URL is set"
    )
    world.enqueue("email")
    line = examined(world)["stages"]
    assert (line["level"], line["message"]) == (
        "red",
        "jobs of email wait for SMTP_URL; send_mail is parked until SMTP_URL is set",
    )
    assert line["fix"] == "set the missing settings and deploy again"


def test_jobs_of_a_stage_that_nobody_knows_are_red(healthy: World, examined: Examine) -> None:
    healthy.enqueue("emial", count=2)
    line = examined(healthy)["stages"]
    assert (line["level"], line["message"]) == ("red", "jobs wait for the stage emial, which this code does not have")
    healthy.sql("select giftcard_cancel(id) from giftcard_jobs")
    assert examined(healthy)["stages"]["level"] == "green"


@pytest.mark.parametrize(("stage", "message"), [("payment", "payment is paused"), ("*", "everything is paused")])
def test_a_pause_is_remembered(healthy: World, examined: Examine, stage: str, message: str) -> None:
    healthy.sql("select giftcard_pause(%s, 'kim')", stage)
    line = examined(healthy)["stages"]
    assert (line["level"], line["message"], line["fix"]) == ("yellow", message, "flask jobs resume NAME ends a pause")
    healthy.sql("select giftcard_resume(%s, 'kim')", stage)
    assert levels(examined(healthy)) == {}
