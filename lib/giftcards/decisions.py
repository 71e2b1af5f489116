"""What operators decide about orders and their money, shared by the web API and the CLI."""

from collections.abc import Callable
from typing import Any, get_args

from lib.caller import Caller
from lib.config.settings import Settings
from lib.giftcards.schemas import (
    AcceptRequest,
    Difference,
    DifferenceQuery,
    FreeRequest,
    Movement,
    PaymentEventRequest,
    RecipientPatch,
    ResendRequest,
)
from lib.jobs.enqueue import prepare
from lib.jobs.registry import Registry
from lib.jobs.schemas import FlowPage
from lib.store.store import Store

Json = dict[str, Any]

DIFFERENCES: tuple[str, ...] = get_args(Difference)
MOVEMENTS: tuple[str, ...] = get_args(Movement)


class Decisions:
    """The decisions about the orders of a store, which the audit records.

    A `tenant_id` None is the caller's own. For another one than theirs, every method raises Forbidden.
    """

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def show(self, tenant_id: str | None, correlation_id: str, page: FlowPage) -> Json:
        """Return the state of an order: its jobs, its payment and its card."""
        return self._store.flow(self._caller.tenant(tenant_id), correlation_id, **page.model_dump())

    def reconcile(self, query: DifferenceQuery) -> Json:
        """Return where money and cards do not match, the oldest first, and what to do about each."""
        tenant_id = self._caller.only(query.tenant_id)
        return self._store.list_differences(tenant_id=tenant_id, verify=query.verify, limit=query.limit)

    def accept(self, request: AcceptRequest) -> Json:
        """Accept a difference: it is not listed again unless its amount changes."""
        return self._store.accept_difference(
            kind=request.kind,
            tenant_id=self._caller.tenant(request.tenant_id),
            item=request.reference,
            reason=request.reason,
            caller=self._caller,
        )

    def make_free(self, tenant_id: str | None, correlation_id: str, request: FreeRequest) -> Json:
        """Waive the payment of an order that is not paid: its card is issued without one."""
        tenant_id = self._caller.tenant(tenant_id)
        return self._store.make_free_of_charge(tenant_id, correlation_id, reason=request.reason, caller=self._caller)

    def correct_recipient(self, tenant_id: str | None, correlation_id: str, request: RecipientPatch) -> Json:
        """Correct address or name of an order's recipient, and return the names of the fields that differ."""
        tenant_id, changes = self._caller.tenant(tenant_id), request.changes()
        return self._store.correct_recipient(tenant_id, correlation_id, customer=changes, caller=self._caller)

    def record_event(self, tenant_id: str | None, correlation_id: str, request: PaymentEventRequest) -> Json:
        """Record a movement of an order's money, once per event id. A refund has the order's card blocked."""
        is_total = request.kind == "captured" if request.is_total is None else request.is_total
        return self._store.record_order_event(
            tenant_id=self._caller.tenant(tenant_id),
            correlation_id=correlation_id,
            event_id=request.event_id,
            kind=request.kind,
            amount=request.amount.amount,
            currency=request.amount.currency,
            provider_ref=request.reference,
            provider=self._settings.giftcard_payment_provider,
            is_total=is_total,
            as_of=request.as_of.isoformat() if request.as_of else None,
            caller=self._caller,
        )

    def block_card(self, tenant_id: str | None, correlation_id: str) -> Json:
        """Have the card of an order blocked by the next tick, whether or not the order is paid."""
        return self._store.request_block(self._caller.tenant(tenant_id), correlation_id, caller=self._caller)

    def resend(self, tenant_id: str | None, correlation_id: str, request: ResendRequest) -> Json:
        """Have the mail of an order sent again by the next tick, to its recipient or a corrected address.

        A job that waits to send it is left to do so (`done`: waiting); one that has failed is requeued.
        """
        tenant_id = self._caller.tenant(tenant_id)
        return self._store.resend_mail(
            tenant_id,
            correlation_id,
            reason=request.reason,
            email=request.email,
            job=self._mail_job(tenant_id, correlation_id, request.email),
            caller=self._caller,
        )

    def _mail_job(self, tenant_id: str, correlation_id: str, email: str | None) -> Json:
        """Return a job that sends the mail of an order. Of an order that has none to send: nothing, it is refused."""
        order = (self._store.books(tenant_id, correlation_id) or {}).get("order")
        if order is None or not isinstance(order["details"].get("customer"), dict):
            return {}
        customer = order["details"]["customer"] | ({"email": email} if email else {})
        payload = order["details"] | {"customer": customer}
        payload |= {"amount": {"amount": order["amount"], "currency": order["currency"]}}
        row = {"stage": "email", "tenant_id": tenant_id, "correlation_id": correlation_id, "payload": payload}
        (job,) = prepare([row | {"trigger_type": "operator", "source": "app"}], self._registry(), self._settings)
        return job
