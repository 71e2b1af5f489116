"""Money that goes back at Square: refunds, disputes and voids, before and after the card is issued."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from lib.store.postgres import PostgresWire
from tests.support.square import PAYMENT, SETTINGS, activity, became, dispute, minute, money, payment, refund, taken
from tests.support.square_books import differences, movements, worth
from tests.support.world import World, a_world, an_order

Make = Callable[..., World]


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(GIFTCARD_PAYMENT_PROVIDER="square", GIFTCARD_JOBS_PER_CRON_RUN=100, **SETTINGS)


def ordered(world: World) -> dict[str, Any]:
    """Its payment job, after a tick."""
    assert world.submit(an_order(correlation_id="order-1")).status_code == 202
    world.run()
    return world.job(stage="payment")


def issued(world: World) -> str:
    """The reference of the card of an order that is paid."""
    ordered(world)
    taken(world, payment(at=minute(0)))
    world.run()
    assert world.statuses() == {"completed": 5}
    reference: str = world.value("select provider_ref from giftcard_cards")
    return reference


def in_part(amount: int) -> Any:
    return payment(refunded_money=money(amount), at=minute(5))


# What they are worth


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ([refund(700)], 1800),
        ([refund(700, status="PENDING")], 1800),
        ([refund(700, status="REJECTED")], 2500),
        ([refund(700, status="FAILED")], 2500),
        ([refund(700, status="PENDING", at=minute(1)), refund(700, status="FAILED", at=minute(2))], 2500),
        ([refund(700), refund(800, id="refund-2")], 1000),
        ([in_part(700)], 1800),
        ([in_part(700), refund(700)], 1800),
        ([in_part(1500), refund(700), refund(800, id="refund-2", status="PENDING")], 1000),
        ([in_part(700), payment(refunded_money=None, at=minute(9))], 2500),
        ([dispute()], 0),
        ([dispute(state="INQUIRY_EVIDENCE_REQUIRED", amount=500, type="dispute.created")], 2000),
        ([dispute("LOST")], 0),
        ([dispute("ACCEPTED")], 0),
        ([dispute("SOMETHING_NEW")], 0),
        ([dispute("PROCESSING", at=minute(1)), dispute("WON", at=minute(2))], 2500),
        ([dispute("INQUIRY_PROCESSING", at=minute(1)), dispute("INQUIRY_CLOSED", at=minute(2))], 2500),
        ([dispute(id=None, dispute_id="dispute-1", type="dispute.state.changed")], 0),
        ([payment(status="CANCELED", at=minute(1))], 0),
        ([payment(status="FAILED", at=minute(1))], 0),
        ([refund(700), dispute(amount=1800)], 0),
    ],
)
def test_payment_is_worth_the_same_in_any_order_of_arrival(world: World, sent: list[Any], left: int) -> None:
    events = [payment(at=minute(0)), *sent]
    for number, order in enumerate(permutations(events)):
        _rename(order, f"payment-{number}")
        for one in order:
            assert taken(world, one)["kind"] == "payment"
        assert worth(world, f"payment-{number}") == left, [one["type"] for one in order]


def _rename(events: Any, reference: str) -> None:
    """The same story of another payment."""
    for number, one in enumerate(events):
        one["event_id"] = f"{reference} {number}"
        (sent,) = one["data"]["object"].values()
        if "disputed_payment" in sent:
            sent["disputed_payment"] = {"payment_id": reference}
            sent["id" if sent["id"] else "dispute_id"] = f"dispute of {reference}"
        elif "payment_id" in sent:
            sent |= {"payment_id": reference, "id": f"{sent['id'].split(' of ')[0]} of {reference}"}
        else:
            sent["id"] = reference


def test_time_of_the_event_counts_where_the_object_has_none(world: World) -> None:
    taken(world, payment())
    for status, number in (("PENDING", 1), ("FAILED", 3), ("COMPLETED", 2)):
        sent = refund(700, status=status, updated_at=None)
        taken(world, sent | {"created_at": minute(number)})
    assert movements(world)["refund:refund-1"] == 0


def test_failed_attempts_of_a_customer_are_worth_nothing_and_no_difference(world: World) -> None:
    job = ordered(world)
    for number in range(3):
        taken(world, payment(id=f"declined-{number}", status="FAILED"))
    world.run()
    assert world.job(job["id"])["last_error"] == "waiting for the payment of $25.00 at Square"
    assert differences(world) == []


# What the books refuse


def test_other_currency_of_a_known_payment_is_ignored_and_logged(
    world: World, log: Callable[[], list[dict[str, Any]]]
) -> None:
    taken(world, payment())
    sent = refund(700, amount_money=money(700, "EUR"))
    assert taken(world, sent) == {"kind": "ignored", "repeated": False}
    assert taken(world, sent) == {"kind": "ignored", "repeated": True}
    why = f"payment {PAYMENT} is in USD, not in EUR"
    assert became(world)[1] == ("ignored", why)
    assert movements(world) == {f"captured:{PAYMENT}": 2500, f"refunded_total:{PAYMENT}": 0}
    (line,) = [line for line in log() if line["event"] == "webhook_refused"]
    assert (line["level"], line["type"], line["event_id"]) == ("warning", "refund.updated", sent["event_id"])
    assert line["error"] == why


def test_refund_that_moves_to_another_payment_is_ignored(world: World) -> None:
    taken(world, refund(at=minute(1)))
    assert taken(world, refund(of="another", at=minute(2)))["kind"] == "ignored"
    assert became(world)[1] == (
        "ignored",
        "event refund:refund-1 is recorded with other content: another movement needs another event id",
    )
    # The row that the refused event would have made is not left behind either.
    assert worth(world, "another") is None


@pytest.mark.parametrize("sent", [refund(2**63 - 1), payment(amount=10**15 + 1)], ids=["refund", "payment"])
def test_amount_that_the_books_do_not_hold_is_ignored_and_logged(
    world: World, log: Callable[[], list[dict[str, Any]]], sent: Any
) -> None:
    assert taken(world, sent)["kind"] == "ignored"
    assert worth(world) is None
    assert [line["type"] for line in log() if line["event"] == "webhook_refused"] == [sent["type"]]


# The flow


def test_refund_before_the_order_comes_lets_it_wait(world: World) -> None:
    taken(world, refund())
    taken(world, payment())
    job = ordered(world)
    assert (job["status"], job["last_error"]) == ("queued", "waiting for the payment of $25.00 at Square")
    assert differences(world) == []


def test_refund_of_a_part_before_the_order_is_paid_is_named(world: World) -> None:
    job = ordered(world)
    taken(world, payment())
    taken(world, refund(500, status="PENDING", at=minute(1)))
    world.run()
    waiting = "waiting for the payment of $25.00 at Square: $20.00 were paid instead"
    assert world.job(job["id"])["last_error"] == waiting
    # It failed: the money is all there.
    taken(world, refund(500, status="FAILED", at=minute(2)))
    world.run()
    assert world.statuses() == {"completed": 5}


class _Between(PostgresWire):
    """Postgres, and what happens once a run has found its payment."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.then: Callable[[], object] | None = None

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        result = super().call(function, repeat=repeat, **arguments)
        if self.then and function == "giftcard_find_offered_payment":
            then, self.then = self.then, None
            then()
        return result


def test_payment_that_goes_back_once_it_is_found_leaves_the_order_waiting(database_url: str) -> None:
    wire = _Between(database_url)
    with a_world(database_url, wire=wire, **SETTINGS, GIFTCARD_PAYMENT_PROVIDER="square") as world:
        job = ordered(world)
        taken(world, payment())
        wire.then = lambda: taken(world, refund())
        world.run()
        assert "was refunded or disputed" in world.job(job["id"])["last_error"]
        world.move(60)
        world.run()
        assert world.job(job["id"])["last_error"] == "waiting for the payment of $25.00 at Square"
        taken(world, payment(id="another"))
        world.run()
        assert world.job(stage="issue_card")["status"] == "completed"


@pytest.mark.parametrize("sent", [refund(1), dispute(), in_part(2500)], ids=["refund", "dispute", "total"])
def test_money_that_goes_back_before_issue_stops_the_flow(world: World, sent: Any) -> None:
    ordered(world)
    taken(world, payment())
    world.run(only_stage="payment")
    taken(world, sent)
    world.run()
    job = world.job(stage="issue_card")
    assert job["last_error"] == "PermanentError: the payment was refunded or disputed: no card is issued"
    assert world.value("select count(*) from giftcard_cards") == 0


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(refund(2500, status="PENDING"), 0), (refund(1), 2499), (dispute(), 0), (in_part(2500), 0)],
    ids=["refund", "a part", "dispute", "total"],
)
def test_money_that_goes_back_after_issue_blocks_the_card(world: World, sent: Any, kept: int) -> None:
    issued(world)
    taken(world, sent)
    assert [name for name, *_ in differences(world)] in (["refunded_after_issue"], ["disputed_after_issue"])
    world.run()
    assert world.job(stage="block_card")["status"] == "completed"
    assert world.value("select state from giftcard_cards") == "blocked"
    # Nothing was spent, so nothing is lost. What the customer has paid and cannot spend any more is a line.
    assert [(kind, amount) for kind, _, amount in differences(world)] == [("paid_without_card", kept)] * bool(kept)


def test_card_that_was_spent_before_it_was_blocked_is_a_line_of_the_reconciliation(world: World) -> None:
    reference = issued(world)
    taken(world, activity(400, id=reference))
    taken(world, refund())
    world.run()
    assert world.value("select state from giftcard_cards") == "blocked"
    assert differences(world) == [("refunded_after_issue", "order-1", 2500)]


def test_dispute_that_is_won_before_the_job_runs_blocks_nothing(world: World) -> None:
    issued(world)
    taken(world, dispute(at=minute(1)))
    taken(world, dispute("WON", at=minute(2)))
    world.run()
    assert world.job(stage="block_card")["status"] == "completed"
    assert world.value("select state from giftcard_cards") == "active"
    assert differences(world) == []
