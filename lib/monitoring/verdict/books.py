"""Money and cards do not match."""

from collections.abc import Iterator

from lib.monitoring.verdict.facts import Action, Facts, Json, Trouble, is_one, number
from lib.monitoring.verdict.wording import many, sentence, short, since

# What an order is or has, by the kinds of giftcard_reconcile.
_ORDERS = {
    "paid_without_card": "was paid and has no card",
    "paid_but_cancelled": "was paid and is cancelled",
    "paid_but_free": "was paid and is free of charge",
    "money_without_order": "does not exist and was paid",
    "paid_twice": "was paid twice",
    "wrong_amount": "was paid with a wrong amount",
    "refunded_after_issue": "was refunded and has a card",
    "disputed_after_issue": "is disputed and has a card",
    "card_of_cancelled_order": "is cancelled and has a card",
    "charge_unknown": "may have been charged, which is unknown",
    "refund_without_payment": "has a refund without a payment",
    "event_refused": "has a payment event that was refused",
    "issue_unknown": "may have a card, which is unknown",
}


def differences(facts: Facts) -> Iterator[Trouble]:
    """Money and cards do not match: how often, and the oldest difference."""
    found = facts.overview.get("differences") or {}
    lines, count, capped = found.get("lines") or (), number(found, "count"), bool(found.get("capped"))
    if not count:
        return
    one = is_one(count, capped=capped)
    text = "Money and cards do not match" + ("" if one else f" in {many(count, 'place', capped=capped)}")
    if lines:
        text += f": {'' if one else 'the oldest: '}{_difference(lines[0])}"
    todo = short(lines[0].get("action"), 150) if lines else ""
    action = Action("See what to do", "open", "/reconciliation")
    yield Trouble("differences", "error", f"{text}.", sentence(f"nothing fixes this by itself. {todo}"), action)


def _difference(line: Json) -> str:
    order = short(line.get("correlation_id"), 40)
    kind = str(line.get("kind"))
    what = _ORDERS.get(kind, f"has {short(kind.replace('_', ' '), 40)}")
    return f"{f'order {order}' if order else 'an order without an id'} {what}{since(line.get('since'))}"
