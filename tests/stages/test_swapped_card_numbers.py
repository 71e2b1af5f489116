"""A card number that someone moves to another row in the database is refused, and sent to nobody."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.support.acts import KIM
from tests.support.ciphertexts import as_before, card_numbers
from tests.support.world import World, an_order

Make = Callable[..., World]

# The same correlation id in two tenants, and two flows of one tenant.
FLOWS = [("default", "order-1"), ("default", "order-2"), ("acme", "order-1")]
REFUSED = "PermanentError: the card number was changed in the database, or is that of another row"


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    return tmp_path / "mails"


@pytest.fixture
def world(make_world: Make, mails: Path) -> World:
    """A card per flow, and no mail yet."""
    world = make_world(GIFTCARD_MAIL_DIR=mails)
    world.store.pause("email", paused_by=KIM.name, reason=None, caller=KIM)
    for number, (tenant, flow) in enumerate(FLOWS):
        order = an_order(tenant_id=tenant, correlation_id=flow, customer={"external_id": f"C-{number}"})
        assert world.submit(order).status_code == 202
    while world.tick()["started"]:
        pass
    world.store.resume("email", resumed_by=KIM.name, caller=KIM)
    assert len(set(card_numbers(world))) == 3
    return world


def cards(world: World) -> list[dict[str, Any]]:
    return world.sql("select * from giftcard_cards order by id")


def put(world: World, card: dict[str, Any], encrypted: str) -> None:
    world.sql("update giftcard_cards set number_encrypted = %s where id = %s", encrypted, card["id"])


def send(world: World, card: dict[str, Any]) -> dict[str, Any]:
    """The email job of a card, after its run."""
    where = "select id from giftcard_jobs where stage = 'email' and tenant_id = %s and correlation_id = %s"
    job_id = world.value(where, card["tenant_id"], card["correlation_id"])
    if world.job(job_id)["status"] == "error":
        world.store.requeue(job_id, caller=KIM)
    world.run(only_job_id=job_id, limit=1)
    return world.job(job_id)


def test_a_number_swapped_between_any_two_cards_is_refused_and_not_sent(world: World, mails: Path) -> None:
    for one, other in permutations(cards(world), 2):
        put(world, one, other["number_encrypted"])
        job = send(world, one)
        assert (job["status"], job["revive_at"], job["last_error"]) == ("error", None, REFUSED)
        put(world, one, one["number_encrypted"])
    assert not list(mails.glob("*"))
    assert [send(world, card)["status"] for card in cards(world)] == ["completed"] * 3
    assert len(list(mails.glob("*.eml"))) == 3


def test_a_result_of_another_effect_becomes_no_card_that_is_sent(world: World, mails: Path) -> None:
    """An operator's decision takes the card from the effect's result."""
    one, other = (card for card in cards(world) if card["tenant_id"] == "default")
    world.sql("delete from giftcard_cards where id = %s", one["id"])
    world.sql(
        'update giftcard_effects e set result = o.result || \'{"decided_by": "kim"}\' || jsonb_build_object('
        "'reference', e.result -> 'reference', 'number_hash', e.result -> 'number_hash') from giftcard_effects o"
        " where e.correlation_id = %s and o.correlation_id = %s and e.tenant_id = 'default' and o.tenant_id = 'default'"
        " and e.stage = 'issue_card' and o.stage = 'issue_card'",
        one["correlation_id"],
        other["correlation_id"],
    )
    where = "select id from giftcard_jobs where stage = 'issue_card' and tenant_id = 'default' and correlation_id = %s"
    world.store.requeue(world.value(where, one["correlation_id"]), force=True, caller=KIM)
    world.run(limit=1, only_stage="issue_card")
    assert world.value("select count(*) from giftcard_cards") == 3
    assert send(world, one)["last_error"] == REFUSED
    assert not list(mails.glob("*"))


def test_a_webhook_secret_is_no_card_number(world: World) -> None:
    from lib.webhooks.secrets import secret_cipher

    card = cards(world)[0]
    secret = secret_cipher(world.settings).encrypt("9900123412345678", (card["tenant_id"], card["correlation_id"]))
    put(world, card, secret)
    assert send(world, card)["last_error"] == REFUSED


def test_numbers_of_the_former_form_are_sent_unless_they_are_swapped(world: World, mails: Path) -> None:
    numbers = card_numbers(world)
    one, other, last = cards(world)
    put(world, one, as_before(numbers[1]))
    job = send(world, one)
    assert (job["status"], "does not match its hash" in job["last_error"]) == ("queued", True)
    assert not list(mails.glob("*"))
    put(world, last, as_before(numbers[2]))
    assert [send(world, card)["status"] for card in (other, last)] == ["completed"] * 2
