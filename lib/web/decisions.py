"""Where money and cards do not match, and what operators decide about orders."""

from typing import Any

from flask import Blueprint, current_app

from lib.giftcards.decisions import Decisions
from lib.giftcards.schemas import (
    AcceptRequest,
    DifferenceQuery,
    FreeRequest,
    PaymentEventRequest,
    RecipientPatch,
    ResendRequest,
)
from lib.web import auth
from lib.web.request_data import TenantQuery, read_body, read_query, refuse_nul
from lib.web.services import decisions

blueprint = Blueprint("decisions", __name__, url_prefix="/api/v1")


def _decisions() -> Decisions:
    return decisions(current_app, caller=auth.caller())


def _checked(query: TenantQuery, correlation_id: str) -> tuple[str | None, str]:
    refuse_nul(query.tenant_id or "", correlation_id)
    return query.tenant_id, correlation_id


@blueprint.get("/reconciliation")
@auth.scope("admin")
def reconcile() -> dict[str, Any]:
    """Return where money and cards do not match, the oldest first.

    Each difference has what to do about it. `verify` also adds up every payment and checks every card, which reads all
    of them.
    """
    (query,) = read_query(DifferenceQuery)
    return _decisions().reconcile(query)


@blueprint.post("/reconciliation/accept")
@auth.scope("admin")
def accept() -> dict[str, Any]:
    """Accept a difference.

    It is not listed again unless its amount changes. The decision is recorded in the audit log.
    """
    return _decisions().accept(read_body(AcceptRequest))


@blueprint.post("/giftcards/<path:correlation_id>/free-of-charge")
@auth.scope("admin")
def make_free(correlation_id: str) -> dict[str, Any]:
    """Waive the payment of an order.

    An order that is cancelled, paid or being charged is rejected with 409.
    """
    (query,) = read_query(TenantQuery)
    return _decisions().make_free(*_checked(query, correlation_id), read_body(FreeRequest))


@blueprint.patch("/giftcards/<path:correlation_id>/recipient")
@auth.scope("admin")
def correct_recipient(correlation_id: str) -> dict[str, Any]:
    """Correct the recipient of an order.

    Jobs that run later use the new values. The audit log has the names of the fields, not their values.
    """
    (query,) = read_query(TenantQuery)
    return _decisions().correct_recipient(*_checked(query, correlation_id), read_body(RecipientPatch))


@blueprint.post("/giftcards/<path:correlation_id>/payment-events")
@auth.scope("admin")
def record_event(correlation_id: str) -> dict[str, Any]:
    """Record a movement of an order's money.

    For payment services of your own, and for refunds by hand. Repeating a request with the same `event_id` records
    nothing twice. Once part of the money went back, the order's card is blocked.
    """
    (query,) = read_query(TenantQuery)
    return _decisions().record_event(*_checked(query, correlation_id), read_body(PaymentEventRequest))


@blueprint.post("/giftcards/<path:correlation_id>/block-card")
@auth.scope("admin")
def block_card(correlation_id: str) -> tuple[dict[str, Any], int]:
    """Block the card of an order.

    A job blocks it at its provider with the next tick, whether or not the order is paid.
    """
    (query,) = read_query(TenantQuery)
    return _decisions().block_card(*_checked(query, correlation_id)), 202


@blueprint.post("/giftcards/<path:correlation_id>/resend")
@auth.scope("admin")
def resend(correlation_id: str) -> tuple[dict[str, Any], int]:
    """Send the mail of an order again.

    The next tick sends it, to the order's recipient or, with `email`, to a corrected address, which the order has from
    then on. A job that waits to send the mail is left to do so; one that has failed is requeued. An order that is
    cancelled or still under way, that has no card or a blocked one, or whose customer was erased, is rejected with 409.
    """
    (query,) = read_query(TenantQuery)
    return _decisions().resend(*_checked(query, correlation_id), read_body(ResendRequest)), 202
