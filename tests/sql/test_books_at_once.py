"""Two connections that write the same books at once: no movement is lost, and no card slips in beside a refund."""

from typing import Any

import psycopg
import pytest

from tests.support.books import event, issue, kinds, pay, take
from tests.support.factory import World
from tests.support.race import Race

pytestmark = pytest.mark.slow

BY_HAND = """insert into giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
             select tenant_id, provider, %s, id, 'refunded', %s, now() from giftcard_payments"""
CARD_BY_HAND = """
    insert into giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref, number_encrypted,
                                number_hash, last4, amount, balance, currency, created_at)
    select tenant_id, correlation_id, id, provider, 'r2', 's', 'h2', '4242', amount, amount, currency, now()
      from giftcard_payments"""


def blocks(world: World) -> list[str]:
    rows = world.rows("select status from giftcard_jobs where stage = 'block_card' order by id")
    return [row["status"] for row in rows]


def test_two_movements_by_hand_at_once_are_both_counted(world: World, race: Race) -> None:
    take(world)
    pay(world)
    race.first.connection.autocommit = False
    race.first.run(BY_HAND, "re_1", 1000)
    second = race.second_waits(lambda other: other.run(BY_HAND, "re_2", 500))
    race.commit()
    second.result()
    assert world.rows("select worth from giftcard_payments") == [{"worth": 1000}]


def test_a_card_by_hand_waits_for_the_refund_of_its_payment(world: World, race: Race) -> None:
    take(world)
    reference = pay(world)["reference"]
    race.first.connection.autocommit = False
    event(race.first, "refunded", 2500, payment=reference, event_id="re_1")
    second = race.second_waits(lambda other: other.run(CARD_BY_HAND))
    race.commit()
    with pytest.raises(psycopg.Error) as caught:
        second.result()
    assert caught.value.diag.constraint_name == "giftcard_cards_is_paid"


def refund(world: World, payment: str, amount: int, *, day: int, number: int = 1) -> Any:
    as_of = f"2026-11-{day:02}T12:00Z"
    return event(world, "refunded", amount, payment=payment, event_id=f"re_{number}", as_of=as_of)


def test_a_block_that_runs_may_have_found_the_card_paid_so_another_follows(world: World) -> None:
    take(world)
    reference = pay(world)["reference"]
    issue(world)
    refund(world, reference, 2500, day=1)
    refund(world, reference, 0, day=2)
    (job,) = world.rows("select id from giftcard_jobs where stage = 'block_card'")
    world.claim_one(job["id"])
    refund(world, reference, 2500, day=3, number=2)
    assert blocks(world) == ["running", "queued"]
    refund(world, reference, 2500, day=4, number=3)
    assert blocks(world) == ["running", "queued"]
    assert kinds(world) == ["refunded_after_issue"]


def test_an_event_that_is_changed_by_hand_has_the_card_blocked_again(world: World) -> None:
    take(world)
    reference = pay(world)["reference"]
    issue(world)
    refund(world, reference, 2500, day=1)
    world.run("update giftcard_payment_events set amount = 0 where kind = 'refunded'")
    world.run("update giftcard_jobs set status = 'completed' where stage = 'block_card'")
    world.run("update giftcard_payment_events set amount = 2500 where kind = 'refunded'")
    assert blocks(world) == ["completed", "queued"]
