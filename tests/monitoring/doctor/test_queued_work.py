"""Keys that open nothing, and stages that cannot run."""

import re
from collections.abc import Callable

import pytest

from lib.giftcards.key_rotation import KeyRotation
from lib.webhooks.schemas import EndpointRequest
from lib.webhooks.service import Endpoints
from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.acts import KIM
from tests.support.ciphertexts import OTHER_KEY, as_before, card_numbers
from tests.support.world import ENCRYPTION_KEY, World

Make = Callable[..., World]

BOTH = f"{OTHER_KEY},{ENCRYPTION_KEY}"


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


NO_KEY = "no encryption key decrypts the card number: add the older key to GIFTCARD_ENCRYPTION_KEYS"
ROTATE = "card numbers or webhook secrets are under an older key, or of the form that is bound to no row"


def test_a_wrong_key_opens_no_card(make_world: Make, examined: Examine) -> None:
    a_card(make_world)
    line = examined(make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY))["keys"]
    assert (line["level"], line["message"]) == ("red", f"card 1: {NO_KEY}")


def test_a_new_key_opens_old_and_new_until_the_old_one_is_rotated_out(make_world: Make, examined: Examine) -> None:
    a_card(make_world)
    both = make_world(GIFTCARD_ENCRYPTION_KEYS=BOTH)
    a_card(make_world, GIFTCARD_ENCRYPTION_KEYS=BOTH)
    line = examined(both)["keys"]
    assert (line["level"], line["message"], line["fix"]) == ("yellow", ROTATE, "flask jobs keys rotate")
    alone = make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY)
    assert examined(alone)["keys"]["message"] == f"card 1: {NO_KEY}"
    KeyRotation(both.store, both.settings, by="kim").rotate(batch=1)
    assert examined(both)["keys"]["message"] == examined(alone)["keys"]["message"] == "the keys decrypt the cards"


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_card_of_many_under_an_older_key_is_found(make_world: Make, examined: Examine, place: str) -> None:
    world = make_world()
    for _ in range(3):
        a_card(make_world)
    number = {"first": 0, "middle": 1, "last": 2}[place]
    former = as_before(card_numbers(world)[number])
    world.sql("update giftcard_cards set number_encrypted = %s where id = %s", former, number + 1)
    assert (examined(world)["keys"]["level"], examined(world)["keys"]["message"]) == ("yellow", ROTATE)


def test_a_card_with_the_number_of_another_is_red(make_world: Make, examined: Examine) -> None:
    world = make_world()
    a_card(make_world)
    a_card(make_world)
    world.sql("update giftcard_cards set number_encrypted = (select number_encrypted from giftcard_cards where id = 1)")
    line = examined(world)["keys"]
    assert line["level"] == "red"
    assert line["message"] == "card 2: the card number was changed in the database, or is that of another row"


def test_webhook_secrets_under_a_key_that_is_missing_are_red(make_world: Make, examined: Examine) -> None:
    world = make_world()
    request = EndpointRequest(url="https://shop.example/hook", events=["giftcard.issued"])
    Endpoints(world.store, world.settings, caller=KIM).create(request)
    assert examined(make_world(GIFTCARD_ENCRYPTION_KEYS=BOTH))["keys"]["level"] == "yellow"
    line = examined(make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY))["keys"]
    assert line["level"] == "red"
    assert re.fullmatch("webhook secrets are under the key [0-9a-f]{12}, which is missing", line["message"])


def test_another_lookup_key_would_find_no_card(make_world: Make, examined: Examine) -> None:
    a_card(make_world)
    line = examined(make_world(GIFTCARD_LOOKUP_KEY="another-key-of-more-than-32-characters"))["keys"]
    assert line["level"] == "red"
    assert line["message"].startswith("GIFTCARD_LOOKUP_KEY does not match card 1")


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
    assert (line["level"], line["message"], line["fix"]) == (
        "yellow",
        message,
        "to end a pause: flask jobs resume NAME",
    )
    healthy.sql("select giftcard_resume(%s, 'kim')", stage)
    assert levels(examined(healthy)) == {}


# Limits


def test_limits_that_end_are_green(make_world: Make, examined: Examine) -> None:
    world = make_world()
    world.sql("select public.giftcard_set_limit('stage', 'email', 0, p_for_seconds => 60)")
    world.sql("select public.giftcard_set_limit('circuit', 'http_call:host', 2)")
    line = examined(world)["limits"]
    assert (line["level"], line["fix"]) == ("green", "")


def test_a_limit_that_stops_a_stage_for_good_is_yellow(make_world: Make, examined: Examine) -> None:
    world = make_world()
    world.sql("select public.giftcard_set_limit('tenant', 'email', 0, p_tenant_id => '*', p_by => 'kim')")
    world.sql("update giftcard_limits set updated_at = now() - interval '3 hours'")
    line = examined(world)["limits"]
    assert line["level"] == "yellow"
    assert line["message"] == "email of each tenant: none starts, without an end, set 3 h ago by kim"
    assert line["fix"].endswith("to remove one: flask jobs limits remove")


@pytest.mark.parametrize(("kind", "name"), [("stage", "emial"), ("circuit", "emial:host"), ("tenant", "emial")])
def test_a_limit_of_no_stage_is_yellow(make_world: Make, examined: Examine, kind: str, name: str) -> None:
    world = make_world()
    tenant = "acme" if kind == "tenant" else ""
    world.sql("insert into giftcard_limits (kind, name, tenant_id, runs) values (%s, %s, %s, 2)", kind, name, tenant)
    key = f"{kind} {name} {tenant}".strip()
    line = examined(world)["limits"]
    message = f"the limit {key} is of the stage emial, which this code does not have"
    assert (line["level"], line["message"], line["fix"]) == (
        *("yellow", message),
        "to remove one: flask jobs limits remove",
    )


# Functions that a settle calls


def test_without_functions_to_call_there_is_no_line(healthy: World, examined: Examine) -> None:
    assert "calls" not in examined(healthy)


def test_a_function_that_is_listed_and_not_there_is_red(healthy: World, examined: Examine) -> None:
    healthy.sql("create function public.pay(jsonb) returns void language sql as ''")
    healthy.sql("insert into giftcard_settle_functions values ('pay')")
    assert examined(healthy)["calls"]["message"] == "the functions that stages may call exist"
    healthy.sql("insert into giftcard_settle_functions select 'shop.f' || n from generate_series(1, 5) n")
    line = examined(healthy)["calls"]
    assert (line["level"], line["fix"]) == ("red", "see docs/doctor.md#calls")
    assert line["message"].startswith("a job that calls it is a dead letter: shop.f1 does not exist with one argument")
    assert line["message"].endswith("; and 2 more")
