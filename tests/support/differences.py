"""Orders whose money and card do not match: one of each kind."""

from collections.abc import Callable
from typing import Any

from tests.support.books import event, issue, pay, take
from tests.support.factory import World

AT_SHOP = {"provider": "http"}


def order(world: World, flow: str, *, paid: bool = True, card: bool = False) -> str:
    """An order; the reference of its payment."""
    take(world, flow)
    reference: str = pay(world, flow)["reference"] if paid or card else ""
    if card:
        issue(world, flow)
    return reference


def captured(world: World, payment: str, flow: str, amount: int = 2500) -> None:
    """Money that a payment service reports for an order."""
    event(world, "captured", amount, payment=payment, event_id=f"captured {payment}", named_order=flow, **AT_SHOP)


def paid_but_cancelled(world: World, flow: str) -> None:
    order(world, flow)
    world.cancelled("issue_card", correlation_id=flow)
    world.call("cancel_flow", tenant_id="default", correlation_id=flow)


def paid_but_free(world: World, flow: str) -> None:
    order(world, flow, paid=False)
    world.call("make_free_of_charge", tenant_id="default", correlation_id=flow, by="kate", reason="goodwill")
    captured(world, f"ch of {flow}", flow)


def paid_twice(world: World, flow: str) -> None:
    order(world, flow, card=True)
    captured(world, f"ch of {flow}", flow)


def refunded(world: World, flow: str) -> None:
    event(world, "refunded", 700, payment=order(world, flow, card=True), event_id=f"re of {flow}")


def disputed(world: World, flow: str) -> None:
    """The card was blocked, but not before it was spent."""
    event(world, "disputed", 2500, payment=order(world, flow, card=True), event_id=f"dp of {flow}")
    world.call("block_card", tenant_id="default", correlation_id=flow, balance=300)


def refund_without_payment(world: World, flow: str) -> None:
    """A refund for a payment that nobody knows: its reference is mistyped."""
    order(world, flow, card=True)
    typo = {"event_id": f"re of {flow}", "named_order": flow, **AT_SHOP}
    event(world, "refunded", 2500, payment=f"typo of {flow}", **typo)


def event_refused(world: World, flow: str) -> None:
    """A vendor reports a payment in a currency that it does not have."""
    captured(world, f"ch of {flow}", flow)
    world.run("update giftcard_payments set worth = 0, currency = 'EUR' where named_order = %s", flow)
    world.run("update giftcard_payment_events set amount = 0 where event_id = %s", f"captured ch of {flow}")
    movement = {"provider_ref": f"ch of {flow}", "event_id": "c2", "kind": "captured", "amount": 2500}
    action = {"movements": [movement | {"currency": "USD", "named_order": flow}]}
    sent = {"source": "http", "event_id": f"event of {flow}", "type": "payment.updated", "tenant_id": "default"}
    world.call("receive_event", **sent, action=action)


def card_of_cancelled_order(world: World, flow: str) -> None:
    order(world, flow, card=True)
    world.cancelled("email", correlation_id=flow)
    world.call("cancel_flow", tenant_id="default", correlation_id=flow)


def unknown(stage: str, name: str) -> Callable[[World, str], None]:
    """An effect that was begun, whose job died without its result."""

    def make(world: World, flow: str) -> None:
        order(world, flow, paid=stage == "issue_card")
        job = world.claimed(stage, correlation_id=flow)
        world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name=name, of_flow=True)
        world.run("update giftcard_jobs set status = 'error', last_error = 'Outcome unknown' where id = %s", job.id)

    return make


# By kind: what makes it in a flow of this name.
MAKE: dict[str, Callable[[World, str], Any]] = {
    "paid_without_card": order,
    "paid_but_cancelled": paid_but_cancelled,
    "paid_but_free": paid_but_free,
    "money_without_order": lambda world, flow: captured(world, f"ch of {flow}", flow),
    "paid_twice": paid_twice,
    "wrong_amount": lambda world, flow: (order(world, flow, paid=False), captured(world, f"ch of {flow}", flow, 99)),
    "refunded_after_issue": refunded,
    "disputed_after_issue": disputed,
    "card_of_cancelled_order": card_of_cancelled_order,
    "charge_unknown": unknown("payment", "charge"),
    "issue_unknown": unknown("issue_card", "issue"),
    "refund_without_payment": refund_without_payment,
    "event_refused": event_refused,
}


def one_of_each(world: World) -> None:
    """A flow of each kind, named after it, since ten minutes."""
    for kind, make in MAKE.items():
        make(world, kind)
    world.later(600)
