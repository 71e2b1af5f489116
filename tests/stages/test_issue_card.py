"""A card is made once and its number is told to nobody: with our own ledger, and with a real vendor."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from cryptography.fernet import Fernet

from lib.giftcards.cards import ISSUER_PREFIX, has_valid_check_digit, vault_of
from tests.support.servers import Vendor, a_vendor
from tests.support.world import ENCRYPTION_KEY, World, an_order

Make = Callable[..., World]


class Scripted(Random):
    """Makes the card numbers of these seeds."""

    def __init__(self, *seeds: int) -> None:
        super().__init__()
        self.seeds = list(seeds)

    def randrange(self, *args: Any, **kwargs: Any) -> int:
        return self.seeds.pop(0)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with a_vendor(makes_cards=True) as vendor:
        yield vendor


@pytest.fixture
def world(make_world: Make, vendor: Vendor) -> World:
    """With a vendor that makes the cards."""
    return make_world(
        GIFTCARD_CARD_PROVIDER="http",
        GIFTCARD_CARD_URL=vendor.url,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
    )


def order(world: World, number: int = 1) -> None:
    body = an_order(correlation_id=f"order-{number}", customer={"external_id": f"C-{number}"})
    assert world.submit(body).status_code == 202


def issue(world: World) -> dict[str, Any]:
    """The newest card job, after a tick."""
    world.tick()
    return world.sql("select * from giftcard_jobs where stage = 'issue_card' order by id desc limit 1")[0]


def numbers(world: World) -> list[str]:
    vault = vault_of(world.settings)
    return [vault.open(row["number_encrypted"]) for row in world.sql("select * from giftcard_cards order by id")]


def test_ledger_makes_a_number_of_our_own_with_a_check_digit(make_world: Make) -> None:
    world = make_world()
    order(world)
    assert issue(world)["status"] == "completed"
    (card,) = world.sql("select * from giftcard_cards")
    (number,) = numbers(world)
    assert has_valid_check_digit(number)
    assert number.startswith(ISSUER_PREFIX)
    shown = {name: card[name] for name in ("last4", "amount", "balance", "currency", "state", "provider")}
    assert shown == {
        "last4": number[-4:],
        "amount": 2500,
        "balance": 2500,
        "currency": "USD",
        "state": "active",
        "provider": "ledger",
    }
    assert card["number_hash"] == vault_of(world.settings).number_hash(number)


def test_number_that_another_card_has_makes_another_number(make_world: Make, mocker: Any) -> None:
    mocker.patch("lib.giftcards.ledger.SystemRandom", return_value=Scripted(1, 1, 1, 2))
    world = make_world()
    order(world, 1)
    issue(world)
    order(world, 2)
    assert issue(world)["status"] == "completed"
    first, second = numbers(world)
    assert first != second


def test_three_numbers_that_are_taken_are_a_failure_that_is_tried_again(make_world: Make, mocker: Any) -> None:
    mocker.patch("lib.giftcards.ledger.SystemRandom", return_value=Scripted(1, 1, 1, 1, 2))
    world = make_world()
    order(world, 1)
    issue(world)
    order(world, 2)
    job = issue(world)
    assert (job["status"], job["last_error"]) == ("queued", "TransientError: all 3 generated card numbers are taken")
    world.move(10)
    assert issue(world)["status"] == "completed"
    assert len(set(numbers(world))) == 2


@pytest.mark.parametrize("forgotten", [False, True])
def test_ledger_makes_one_card_whatever_is_remembered_of_it(make_world: Make, forgotten: bool) -> None:
    world = make_world()
    order(world)
    job = issue(world)
    before = numbers(world)
    if forgotten:
        world.sql("update giftcard_effects set result = null, finished_at = null where stage = 'issue_card'")
        world.move(21 * 3600)
    world.requeue(job["id"], force=True)
    assert issue(world)["status"] == "completed"
    assert numbers(world) == before


def test_new_encryption_key_seals_and_the_old_one_still_opens(make_world: Make) -> None:
    before = make_world()
    order(before, 1)
    issue(before)
    (number,) = numbers(before)
    new = Fernet.generate_key().decode()
    after = make_world(GIFTCARD_ENCRYPTION_KEYS=f"{new},{ENCRYPTION_KEY}")
    order(after, 2)
    issue(after)
    assert numbers(after)[0] == number
    sealed = after.value("select number_encrypted from giftcard_cards order by id desc limit 1")
    assert Fernet(new).decrypt(sealed.encode())


def test_card_of_a_vendor_is_kept_encrypted(world: World, vendor: Vendor) -> None:
    order(world)
    assert issue(world)["status"] == "completed"
    (made,) = vendor.taken
    (card,) = world.sql("select * from giftcard_cards")
    number = vendor.answers[made.key][1]["number"]
    assert numbers(world) == [number]
    assert (card["provider"], card["provider_ref"], card["last4"]) == ("http", made.reference, number[-4:])
    assert number not in str(world.sql("select * from giftcard_effects"))


@pytest.mark.parametrize("lost", ["cut", "garbage", "nameless"])
def test_card_made_without_an_answer_is_asked_for_under_the_same_key_and_made_once(
    world: World, vendor: Vendor, lost: str
) -> None:
    vendor.then(lost)
    order(world)
    assert issue(world)["status"] == "queued"
    world.move(10)
    assert issue(world)["status"] == "completed"
    assert len(vendor.keys) == 2
    assert len(set(vendor.keys)) == len(vendor.taken) == 1


@pytest.mark.parametrize("number", [None, 9911000000000000, "", "12", "not a number", "٤" * 16, "9" * 40])
def test_answer_without_a_usable_number_is_tried_again_and_never_kept(
    world: World, vendor: Vendor, number: Any
) -> None:
    good = vendor.numbers
    vendor.numbers = iter([number])
    order(world)
    job = issue(world)
    assert (job["status"], job["last_error"]) == (
        "queued",
        "TransientError: the card service returned no card number",
    )
    assert world.sql("select result from giftcard_effects where stage = 'issue_card'") == [{"result": None}]
    vendor.forget()
    vendor.numbers = good
    world.move(10)
    assert issue(world)["status"] == "completed"


def test_old_card_is_looked_up_when_its_key_may_have_died(world: World, vendor: Vendor) -> None:
    vendor.then("cut")
    order(world)
    issue(world)
    world.move(21 * 3600)
    assert issue(world)["status"] == "completed"
    assert (len(vendor.keys), vendor.looked_up) == (1, vendor.keys)
    assert numbers(world) == [vendor.answers[vendor.keys[0]][1]["number"]]


def test_declined_card_leaves_an_order_that_is_paid_and_has_no_card(world: World, vendor: Vendor) -> None:
    vendor.then("decline")
    order(world)
    job = issue(world)
    assert (job["status"], job["revive_at"]) == ("error", None)
    (paid,) = world.sql("select * from giftcard_reconcile()")
    assert (paid["kind"], paid["correlation_id"], paid["amount"]) == ("paid_without_card", "order-1", 2500)
    assert f"job {job['id']} of issue_card is error: Declined" in paid["detail"]
    world.requeue(job["id"])
    assert issue(world)["status"] == "completed"
    assert world.sql("select * from giftcard_reconcile(p_verify => true)") == []
    assert len(set(vendor.keys)) == 2


def test_wrong_encryption_key_is_no_fault_of_the_job(make_world: Make) -> None:
    order(make_world())
    make_world(SMTP_URL="smtp://127.0.0.1:9").tick()
    other = make_world(GIFTCARD_ENCRYPTION_KEYS=Fernet.generate_key().decode())
    other.move(5)
    other.tick()
    job = other.job(stage="email")
    assert (job["status"], "encryption key" in job["last_error"]) == ("queued", True)
