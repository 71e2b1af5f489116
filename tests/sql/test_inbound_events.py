"""What vendors send: what the books refuse is ignored for good, what may pass is not, and no event misses its card."""

from typing import Any

import psycopg
import pytest

from tests.support.books import issue, kinds, pay, take
from tests.support.factory import World
from tests.support.race import Race

MOVED = {"provider_ref": "p1", "event_id": "captured:p1", "kind": "captured", "amount": 2500, "currency": "USD"}
BLOCKED = {"reference": "gftc:1", "balance": 500, "currency": "USD", "blocked": True, "at": "2026-11-28T10:00:00Z"}


def receive(world: World, event_id: str, **action: Any) -> dict[str, Any]:
    event = {"source": "square", "type": "x", "tenant_id": "default"}
    received: dict[str, Any] = world.call("receive_event", event_id=event_id, action=action, **event)
    return received


def books(world: World) -> Any:
    return world.rows("select * from giftcard_payments"), world.rows("select * from giftcard_payment_events")


def kept(world: World) -> list[tuple[str, str]]:
    rows = world.rows("select event_id, kind from giftcard_inbound_events order by event_id")
    return [(row["event_id"], row["kind"]) for row in rows]


@pytest.mark.parametrize(
    "wrong",
    [
        {"currency": "EUR"},
        {"amount": 1},
        {"kind": "refunded"},
        {"kind": "stolen", "event_id": "e2"},
        {"amount": -1, "event_id": "e2"},
    ],
    ids=str,
)
def test_what_the_books_refuse_is_ignored_and_leaves_nothing(world: World, wrong: dict[str, Any]) -> None:
    receive(world, "e1", movements=[MOVED])
    before = books(world)
    other = MOVED | {"provider_ref": "p2", "event_id": "captured:p2"}
    answer = receive(world, "e2", movements=[other, MOVED | wrong])
    assert (answer["kind"], answer["repeated"]) == ("ignored", False)
    (row,) = world.rows("select facts from giftcard_inbound_events where event_id = 'e2'")
    assert row["facts"] == {"why": answer["refused"], "movement": 2500, "currency": "USD"}
    assert "event_refused" in kinds(world)
    assert books(world) == before
    assert receive(world, "e2", movements=[MOVED]) == {"kind": "ignored", "repeated": True, "refused": None}


def test_what_may_pass_is_no_refusal(world: World, race: Race) -> None:
    receive(race.second, "e1", movements=[MOVED])
    receive(race.first, "e2", movements=[MOVED | {"kind": "refunded", "event_id": "refund:1"}])
    race.second.connection.execute("set lock_timeout = '20ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        receive(race.second, "e3", movements=[MOVED | {"kind": "refunded", "event_id": "refund:2"}])
    race.commit()
    assert kept(world) == [("e1", "payment"), ("e2", "payment")]
    assert receive(world, "e3", movements=[MOVED | {"kind": "refunded", "event_id": "refund:2"}])["kind"] == "payment"


def test_card_that_is_recorded_while_its_event_arrives_does_not_miss_it(world: World, race: Race) -> None:
    take(world)
    pay(world)
    assert receive(race.first, "e1", card=BLOCKED)["kind"] == "kept"
    waiting = race.second_waits(lambda w: issue(w, provider_ref="gftc:1"))
    race.commit()
    waiting.result()
    assert kept(world) == [("e1", "card")]
    assert world.rows("select state, balance from giftcard_cards") == [{"state": "blocked", "balance": 500}]


def test_event_that_arrives_while_its_card_is_recorded_does_not_miss_it(world: World, race: Race) -> None:
    take(world)
    pay(world)
    issue(race.first, provider_ref="gftc:1")
    waiting = race.second_waits(lambda w: receive(w, "e1", card=BLOCKED))
    race.commit()
    assert waiting.result()["kind"] == "card"
    assert world.rows("select state, balance from giftcard_cards") == [{"state": "blocked", "balance": 500}]
