"""The group of orders: what operators decide about them, and where money and cards do not match.

`find` and `story` are in `stories`.
"""

import shlex
from collections.abc import Callable
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import books
from lib.cli.group import command_line, jobs, json_option, output
from lib.cli.known import Word
from lib.cli.models import identifiers
from lib.cli.options import MINOR_UNITS, NAME, TEXT, build, options_of, typed_fields, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import order_service
from lib.giftcards.decisions import DIFFERENCES, MOVEMENTS
from lib.giftcards.schemas import (
    AcceptRequest,
    DifferenceQuery,
    FreeRequest,
    PaymentEventRequest,
    RecipientPatch,
    ResendRequest,
)
from lib.jobs.schemas import FlowPage

_HELP = {
    "tenant_id": "Tenant of the order (default).",
    "reason": "Why, for other operators. Required.",
    "email": "The right address.",
    "given_name": "The right given name.",
    "family_name": "The right family name; empty: none.",
    "event_id": "Name of this movement, such as the refund's id: it is recorded once. Required.",
    "reference": "The payment's reference at its provider (that of the order's payment).",
    "as_of": "Time of this description; a newer one of the same event replaces it.",
}
_JOBS_HELP = {"limit": "Maximum number of jobs (100).", "older": "Page of jobs older than this id."}
_LIST_HELP = {
    "tenant_id": "Only this tenant.",
    "verify": "Also add up every payment and check every card. Reads all of them.",
    "limit": "Maximum number of differences (200).",
}
_TENANT = ("--tenant", "--tenant-id", "tenant_id")
_Command = Callable[..., Any]


def order_argument(command: _Command) -> _Command:
    """Add the argument CORRELATION_ID and the option --tenant."""
    tenant = click.option(*_TENANT, type=TEXT, default="default", help="Tenant of the order (default).")
    return click.argument("correlation_id", type=TEXT)(tenant(command))


def order_ids(tenant_id: str, correlation_id: str) -> tuple[str, str]:
    """Return valid ids of an order. Raises BadInput naming the option or argument."""
    tenant, flow = identifiers({"--tenant": tenant_id, "CORRELATION_ID": correlation_id})
    return tenant, flow


@jobs.group()
@with_appcontext
def orders() -> None:
    """Find and show orders, find differences between money and cards, and decide about them."""


@orders.command()
@order_argument
@options_of(FlowPage, help_texts=_JOBS_HELP)
@json_option
def show(correlation_id: str, *, tenant_id: str, as_json: bool, **options: Any) -> None:
    """Show an order: what it costs, its payment, its card and its jobs."""
    page = build(FlowPage, typed_fields(FlowPage, options))
    found = order_service().show(*order_ids(tenant_id, correlation_id), page)
    words = ["orders", "show", correlation_id, "--tenant", tenant_id, "--older", str(found["older"])]
    link = shlex.join(command_line(*words)) if found["older"] else None
    output(found, as_json=as_json, view=lambda found: books.order(found, link=link))


@orders.command()
@options_of(DifferenceQuery, help_texts=_LIST_HELP)
@json_option
def reconcile(*, as_json: bool, **options: Any) -> None:
    """List where money and cards do not match. Exit code 1 if there is any difference."""
    found = order_service().reconcile(build(DifferenceQuery, typed_fields(DifferenceQuery, options)))
    output(found, as_json=as_json, view=books.differences)
    if found["differences"]:
        click.get_current_context().exit(1)


@orders.command()
@click.argument("kind", metavar="KIND", type=Word(DIFFERENCES))
@click.argument("reference", type=NAME)
@options_of(AcceptRequest, skip=("kind", "reference"), help_texts=_HELP)
@json_option
def accept(*, as_json: bool, **options: Any) -> None:
    """Accept a difference: it is not listed again unless its amount changes."""
    request = build(AcceptRequest, typed_fields(AcceptRequest, options))
    output(order_service().accept(request), as_json=as_json, view=books.accepted)


@orders.command("make-free")
@order_argument
@options_of(FreeRequest, help_texts=_HELP)
@yes_option
@json_option
def make_free(correlation_id: str, *, tenant_id: str, yes: bool, as_json: bool, **options: Any) -> None:
    """Waive the payment of an order that is not paid: its card is issued without one."""
    request = build(FreeRequest, typed_fields(FreeRequest, options))
    flow = order_ids(tenant_id, correlation_id)
    confirm(f"Make order {flow[1]} (tenant {flow[0]}) free of charge for good?", yes=yes)
    output(order_service().make_free(*flow, request), as_json=as_json, view=books.made_free)


@orders.command("correct-recipient")
@order_argument
@options_of(RecipientPatch, help_texts=_HELP)
@json_option
def correct_recipient(correlation_id: str, *, tenant_id: str, as_json: bool, **options: Any) -> None:
    """Correct address or name of an order's recipient. Jobs that run later use them."""
    request = build(RecipientPatch, typed_fields(RecipientPatch, options))
    done = order_service().correct_recipient(*order_ids(tenant_id, correlation_id), request)
    output(done, as_json=as_json, view=books.recipient_corrected)


@orders.command()
@order_argument
@options_of(ResendRequest, help_texts=_HELP)
@yes_option
@json_option
def resend(correlation_id: str, *, tenant_id: str, yes: bool, as_json: bool, **options: Any) -> None:
    """Send the mail of an order again, to its recipient or a corrected address."""
    request = build(ResendRequest, typed_fields(ResendRequest, options))
    flow = order_ids(tenant_id, correlation_id)
    where = "to the corrected address" if request.email else "to the same address"
    confirm(f"Send the mail of order {flow[1]} (tenant {flow[0]}) again, {where}?", yes=yes)
    output(order_service().resend(*flow, request), as_json=as_json, view=books.resent)


@orders.command("record-event")
@order_argument
@click.argument("kind", metavar="KIND", type=Word(MOVEMENTS))
@click.argument("amount", type=MINOR_UNITS)
@click.option("--currency", type=TEXT, help="Currency of AMOUNT (the order's).")
@click.option("--is-total", is_flag=True, help="AMOUNT is the total of this kind so far, not one more.")
@options_of(PaymentEventRequest, skip=("kind", "amount", "is_total"), help_texts=_HELP)
@json_option
def record_event(
    correlation_id: str, *, tenant_id: str, amount: int, currency: str | None, as_json: bool, **options: Any
) -> None:
    """Record a movement of an order's money: AMOUNT minor units (2500 is $25.00) were captured, refunded, ….

    A refund that you made by hand, for example. It has the order's card blocked.
    """
    fields = typed_fields(PaymentEventRequest, options) | {"amount": {"amount": amount, "currency": currency}}
    request = build(PaymentEventRequest, fields)
    done = order_service().record_event(*order_ids(tenant_id, correlation_id), request)
    output(done, as_json=as_json, view=books.event_recorded)


@orders.command()
@order_argument
@yes_option
@json_option
def block(correlation_id: str, *, tenant_id: str, yes: bool, as_json: bool) -> None:
    """Block the card of an order at its provider, whether or not the order is paid."""
    flow = order_ids(tenant_id, correlation_id)
    confirm(f"Block the card of order {flow[1]} (tenant {flow[0]})?", yes=yes)
    output(order_service().block_card(*flow), as_json=as_json, view=books.block_requested)
