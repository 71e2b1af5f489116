"""Orders, payments and cards in the books, made by the functions that stages call."""

from typing import Any

from tests.support.factory import World

Row = dict[str, Any]

KATE = {"given_name": "Kate", "email": "kate@example.org", "external_id": "C-1"}


def take(
    world: World, flow: str = "order-7", *, amount: int = 2500, currency: str = "USD", tenant: str = "default"
) -> Row:
    """Takes in an order, as the first stage of a flow does. Its books."""
    order = {"customer": KATE, "amount": {"amount": amount, "currency": currency}}
    books: Row = world.call(
        "take_order", tenant_id=tenant, correlation_id=flow, order=order, body_hash=f"hash of {flow}"
    )
    return books


def pay(world: World, flow: str = "order-7", *, tenant: str = "default", **more: Any) -> Row:
    """Records the payment of an order that is taken in, of what it costs unless `more` has another amount."""
    order = world.ask("books", tenant_id=tenant, correlation_id=flow)
    money = {"amount": order["order"]["amount"], "currency": order["order"]["currency"]} if order else {}
    arguments = {"idempotency_key": f"key of {tenant} {flow}", "provider": "ledger"} | money | more
    payment: Row = world.call("record_payment", tenant_id=tenant, correlation_id=flow, **arguments)
    return payment


def issue(world: World, flow: str = "order-7", *, tenant: str = "default", **more: Any) -> Row:
    """Records the card of an order that is paid, over what it costs unless `more` has another amount."""
    order = world.ask("books", tenant_id=tenant, correlation_id=flow)
    money = {"amount": order["order"]["amount"], "currency": order["order"]["currency"]} if order else {}
    name = f"{tenant} {flow}"
    card = {"number_encrypted": "secret", "number_hash": f"hash of {name}", "last4": "4242", "provider_ref": name}
    arguments = {"provider": "ledger"} | money | card | more
    recorded: Row = world.call("record_card", tenant_id=tenant, correlation_id=flow, **arguments)
    return recorded


def event(
    world: World, kind: str, amount: int, *, payment: str, event_id: str, tenant: str = "default", **more: Any
) -> Row:
    """Records a movement of a payment's money."""
    arguments = {"provider": "ledger", "provider_ref": payment, "event_id": event_id, "currency": "USD"} | more
    recorded: Row = world.call("record_payment_event", tenant_id=tenant, kind=kind, amount=amount, **arguments)
    return recorded


def differences(world: World) -> list[Row]:
    """The lines of the reconciliation, each sum checked as well."""
    return world.rows("select * from public.giftcard_reconcile(p_verify => true)")


def kinds(world: World) -> list[str]:
    """The kinds of the lines of the reconciliation."""
    return sorted(line["kind"] for line in differences(world))


# What a line says of its amount: money that is here and on no card (+), or on a card and not here any more (-).
SIGNS = {
    **dict.fromkeys(("paid_without_card", "paid_but_cancelled", "paid_but_free", "money_without_order"), 1),
    **dict.fromkeys(("paid_twice", "wrong_amount"), 1),
    **dict.fromkeys(("refunded_after_issue", "disputed_after_issue"), -1),
    **dict.fromkeys(("refund_without_payment", "event_refused"), 0),
    **dict.fromkeys(("card_of_cancelled_order", "charge_unknown", "issue_unknown"), 0),
}
# By tenant and currency: money that is here, less what paid cards are worth. A card that is blocked is worth what was
# spent of it.
OPEN = """
    select p.tenant_id, p.currency, sum(
             case when p.card_id is null then greatest(p.worth, 0) else p.worth end
             - coalesce(case when c.state = 'blocked' and c.balance = c.amount then least(c.amount - c.unpaid, 0)
                             when c.state = 'blocked' and c.unpaid = 0 then c.amount - c.balance
                             else c.amount end, 0))::bigint as open
      from public.giftcard_payments p left join public.giftcard_cards c on c.id = p.card_id
     where p.currency is not null group by p.tenant_id, p.currency
"""


def on_lines(lines: list[Row]) -> dict[str, int]:
    """By currency: the amounts of lines of the reconciliation, as SIGNS counts them."""
    found: dict[str, int] = {}
    for line in lines:
        found[line["currency"]] = found.get(line["currency"], 0) + SIGNS[line["kind"]] * line["amount"]
    return {currency: amount for currency, amount in found.items() if amount}
