"""Square: customers pay there, some get their money back, and each event is sent until it is received."""

from typing import TYPE_CHECKING, Any

from lib.errors import GiftcardError
from lib.giftcards import square_events
from lib.giftcards.orders import Order
from proof.simulation.operators import TRIES

if TYPE_CHECKING:
    from proof.simulation.night import Night


def pay(night: "Night", flow: str, wanted: Order) -> None:
    """Pay at Square, which sends each event until it is received, in any order, and sometimes twice."""
    rng = night.machine.thread().rng
    night.machine.pause(rng.uniform(1, 90))
    payment = f"sq-{flow}"
    created = _event(
        night, f"e1-{flow}", "payment.updated", "payment", _money(payment, wanted) | {"reference_id": f"gc:{flow}"}
    )
    sent = [created, created] if rng.random() < 0.4 else [created]
    if rng.random() < 0.25:
        refund = _money(f"rf-{flow}", wanted) | {"payment_id": payment}
        sent.append(_event(night, f"e2-{flow}", "refund.created", "refund", refund))
        night.by_hand.add(flow)  # it may have no card, or one that is blocked
    rng.shuffle(sent)
    store = night.store(night.machine.thread().process)
    for event in sent:
        for _ in range(TRIES):
            try:
                store.receive_event(
                    source="square",
                    event_id=event.event_id,
                    type=event.type,
                    tenant_id="default",
                    action=square_events.action_for(event, night.settings),
                )
                break
            except GiftcardError:
                night.machine.pause(10)


def _money(id_: str, wanted: Order) -> dict[str, Any]:
    """Return what payments and refunds have in common."""
    money = {"amount": wanted.amount.amount, "currency": wanted.amount.currency}
    return {"id": id_, "status": "COMPLETED", "location_id": "LOCATION", "amount_money": money}


def _event(night: "Night", event_id: str, kind: str, name: str, content: dict[str, Any]) -> square_events.Event:
    return square_events.Event.model_validate(
        {
            "event_id": event_id,
            "type": kind,
            "created_at": night.machine.moment,
            "merchant_id": "MERCHANT",
            "data": {"object": {name: content}},
        }
    )
