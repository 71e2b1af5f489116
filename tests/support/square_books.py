"""Orders and cards in the books of a world, without the jobs that lead to them, and what the books hold of Square."""

from typing import Any

from tests.support.square import PAYMENT
from tests.support.world import World

Row = dict[str, Any]


def order(world: World, name: str = "order-1", *, amount: int = 2500) -> None:
    """An order that was taken in; no job of it runs."""
    content = {"customer": {"given_name": "Kate", "email": "kate@example.com"}}
    money = {"amount": amount, "currency": "USD"}
    world.store.take_order(
        tenant_id="default", correlation_id=name, order=content | {"amount": money}, body_hash=f"hash of {name}"
    )


def accept(world: World, name: str = "order-1", *, amount: int = 2500, **more: Any) -> Row:
    """The payment that an order accepts."""
    paid = {"idempotency_key": f"key of {name}", "provider": "http", "provider_ref": f"ch {name}", "currency": "USD"}
    return world.store.record_payment(tenant_id="default", correlation_id=name, amount=amount, **(paid | more))


def card(world: World, name: str = "order-1", *, reference: str = "gftc:1", amount: int = 2500) -> Row:
    """The card of an order, which Square has made."""
    number = {"number_encrypted": "sealed", "number_hash": f"hash of {name}", "last4": "1635"}
    return world.store.record_card(
        tenant_id="default",
        correlation_id=name,
        provider="http",
        provider_ref=reference,
        amount=amount,
        currency="USD",
        **number,
    )


def card_of_order(world: World, name: str = "order-1", *, reference: str = "gftc:1") -> None:
    """An order that is paid, and its card."""
    order(world, name)
    accept(world, name)
    card(world, name, reference=reference)


def state_of(world: World, reference: str = "gftc:1") -> tuple[int, str]:
    """Balance and state of a card."""
    (row,) = world.sql("select balance, state from giftcard_cards where provider_ref = %s", reference)
    return row["balance"], row["state"]


def worth(world: World, reference: str = PAYMENT) -> int | None:
    """What a payment at Square is worth; None: there is no such payment."""
    query = "select worth from giftcard_payments where provider = 'square' and provider_ref = %s"
    rows = world.sql(query, reference)
    return rows[0]["worth"] if rows else None


def movements(world: World) -> dict[str, int]:
    """The amount of each movement at Square, by its event id."""
    rows = world.sql("select event_id, amount from giftcard_payment_events where provider = 'square'")
    return {row["event_id"]: row["amount"] for row in rows}


def differences(world: World) -> list[tuple[str, str, int]]:
    """The lines of the reconciliation: kind, order, what is at stake."""
    rows = world.sql("select * from giftcard_reconcile(p_verify => true)")
    return [(row["kind"], row["correlation_id"], row["amount"]) for row in rows]
