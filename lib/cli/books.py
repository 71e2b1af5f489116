"""An order, differences between money and cards, and the sentences after each decision about them."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from lib.cli.group import with_url
from lib.cli.layout import wrap
from lib.cli.tables import Part, Table, count, moment
from lib.giftcards.money import format_money

Json = dict[str, Any]

_MATCH = "Money and cards match."


def money(amount: Any, currency: str | None) -> str:
    """Format an amount whose currency a plain INSERT can have left unknown."""
    return format_money(amount, currency) if currency else str(amount)


def differences(found: Json) -> Iterator[Part]:
    """Render the differences by kind, each with what to do about it."""
    if not found["differences"]:
        yield _MATCH
        return
    for kind, group in groupby(sorted(found["differences"], key=_kind), key=_kind):
        yield from _of_kind(kind, list(group))
    number = count(len(found["differences"]), "difference") + (", and more: --limit" if found["truncated"] else "")
    yield f"{number}. docs/runbook.md explains each kind. If one is as it should be:"
    yield "  flask jobs orders accept KIND REFERENCE --reason TEXT"


def _kind(difference: Json) -> str:
    return str(difference["kind"])


def _of_kind(kind: str, found: list[Json]) -> Iterator[Part]:
    rows = [((moment(each["since"])[:16], money(each["amount"], each["currency"])), _lines(each)) for each in found]
    yield Table(f"{kind} ({len(found)})", ("since, amount", "order, reference, detail"), rows)
    yield from wrap(f"→ {found[0]['action']}", 78)
    yield ""


def _lines(difference: Json) -> tuple[str, str, str]:
    """Return the order, the reference and the detail. Names stay whole, as commands need them."""
    tenant = "" if difference["tenant_id"] == "default" else f" (tenant {difference['tenant_id']})"
    order = f"{difference['correlation_id'] or 'no order'}{tenant}"
    return order, difference["reference"], difference["detail"] or ""


def order(found: Json, *, link: str | None = None) -> Iterator[Part]:
    """Render an order: what it costs, its payment, its card and its jobs. `link`: the command for older jobs."""
    yield Table(f"Order {found['correlation_id']} (tenant {found['tenant_id']})", ("", ""), list(_facts(found)))
    columns = ("job", "stage", "status", "attempts", "due or revives", "error")
    rows = [
        (
            *(job["id"], job["stage"], "archived" if job["archived_at"] else job["status"], job["attempts"]),
            "" if job["finished_at"] and not job["revive_at"] else moment(job["revive_at"] or job["scheduled_at"]),
            job["last_error"],
        )
        for job in found["jobs"]
    ]
    yield Table("Jobs, in order", columns, rows) if rows else "No job of this order is left."
    if link:
        yield f"older: {link}"


def _facts(found: Json) -> Iterator[tuple[str, str]]:
    order, payment, card = found.get("order"), found["payment"], found["card"]
    if order:
        yield "costs", money(order["amount"], order["currency"]) + _waived(order)
        if order.get("locale"):  # older deployments have none
            yield "language", order["locale"]
        if order["cancelled_at"]:
            yield "cancelled", moment(order["cancelled_at"]) + _reopened_by(found["jobs"])
    yield "payment", _payment(payment) if payment else "none"
    yield "card", _card(card) if card else "none"


def _reopened_by(jobs: list[Json]) -> str:
    """Return how to reopen a cancelled order, if a job of it can."""
    cancelled = [job["id"] for job in jobs if job["status"] == "cancelled" and not job["archived_at"]]
    return with_url(f"; to reopen it: flask jobs requeue {cancelled[0]}") if cancelled else ""


def _waived(order: Json) -> str:
    return ", free of charge" if order["free_of_charge"] else ""


def _payment(payment: Json) -> str:
    text = f"{money(payment['amount'], payment['currency'])} at {payment['provider']}, {payment.get('reference', '')}"
    worth = payment.get("worth", payment["amount"])  # older deployments have none
    return text if worth == payment["amount"] else f"{text}; worth {money(worth, payment['currency'])} now"


def _card(card: Json) -> str:
    text = f"…{card['last4']}, {money(card['amount'], card['currency'])}, {card['state']}"
    if card["balance"] != card["amount"]:
        text += f", {money(card['balance'], card['currency'])} left"
    if card.get("unpaid"):  # older deployments have none
        text += f", {money(card['unpaid'], card['currency'])} unpaid"
    return text


# Decisions


def accepted(done: Json) -> Iterator[Part]:
    """Confirm that a difference is accepted."""
    yield f"{done['kind']} of {done['item']} is accepted: it is listed again only if its amount changes"


def made_free(done: Json) -> Iterator[Part]:
    """Confirm that an order is free of charge."""
    yield f"order {done['correlation_id']} is free of charge: if its payment job is dead, requeue it"


def recipient_corrected(done: Json) -> Iterator[Part]:
    """Confirm the correction of a recipient, without the values."""
    changed = ", ".join(done["changed"])
    order = f"order {done['correlation_id']}"
    yield (
        f"{changed} of {order} changed: jobs that run later use it" if changed else f"{order} has these values already"
    )


def resent(done: Json) -> Iterator[Part]:
    """Confirm the job that sends a mail again."""
    job_id, due = done["job_id"], moment(done["scheduled_at"])
    sentence = {
        "created": f"job {job_id} sends the mail again with the next tick",
        "requeued": f"job {job_id}, which had not sent the mail, is queued again: the next tick runs it",
        "waiting": f"job {job_id} waits or runs to send the mail already (due {due})",
    }[done["done"]]
    changed = "; the order has the new address" if done["changed"] else ""
    yield f"{sentence}{changed}: see flask jobs show {job_id}"


def event_recorded(done: Json) -> Iterator[Part]:
    """Confirm a recorded movement of money."""
    worth = f"payment {done['reference']} is worth {money(done['worth'], done['currency'])}"
    yield f"recorded: {worth} now" if done["changed"] else f"nothing was changed, it is recorded already: {worth}"


def block_requested(done: Json) -> Iterator[Part]:
    """Confirm the job that blocks a card."""
    verb = "blocks" if done["created"] else "already blocks"
    yield f"job {done['job_id']} {verb} the card with the next tick: see flask jobs show {done['job_id']}"
