"""Calls for orders: customers, personal codes, payments, cards, and what operators decide about them."""

from typing import Any

from lib.caller import Caller
from lib.job import Job
from lib.store.calls import Calls


class OrderCalls(Calls):
    """Documented in `supabase/schemas/`, 41 to 49."""

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """Store an order and enqueue its first job, in one transaction. `lib.giftcards.submit` prepares the job."""
        return self._dict("giftcard_submit_order", repeat=True, **arguments)

    def books(self, tenant_id: str, correlation_id: str) -> dict[str, Any] | None:
        """Return the order of a flow, its payment and its card, with its number encrypted; None: it has no order."""
        books: dict[str, Any] | None = self._wire.call(
            "giftcard_books", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id
        )
        return books

    def card_page(self, page_id: int) -> dict[str, Any] | None:
        """Return what the customer's page of an order shows; None: no order has this id."""
        page: dict[str, Any] | None = self._wire.call("giftcard_card_page", repeat=True, page_id=page_id)
        return page

    def take_order(self, **arguments: Any) -> dict[str, Any]:
        """Take in the order of a flow that has none yet. Return its books, of the order that was there first."""
        return self._dict("giftcard_take_order", repeat=True, **arguments)

    def save_customer(self, **arguments: Any) -> dict[str, Any]:
        """Create or update a customer, identified by (tenant, external id), or by (tenant, email)."""
        return self._dict("giftcard_save_customer", repeat=True, **arguments)

    def assign_code(self, customer_id: int, *, candidates: tuple[str, ...]) -> str | None:
        """Return the customer's code, assigned if need be; None: every candidate is taken."""
        assigned = self._dict("giftcard_assign_code", repeat=True, customer_id=customer_id, candidates=candidates)
        code: str | None = assigned["code"]
        return code

    def record_payment(self, **arguments: Any) -> dict[str, Any]:
        """Record the payment of an order; an order has one. Refused(GC409): the order cannot accept it."""
        return self._dict("giftcard_record_payment", repeat=True, **arguments)

    def record_payment_event(self, **arguments: Any) -> dict[str, Any]:
        """Record a movement of a payment's money, whether or not an order accepts the payment."""
        return self._dict("giftcard_record_payment_event", repeat=True, **arguments)

    def find_payment(self, idempotency_key: str) -> dict[str, Any] | None:
        """Return the payment recorded under a key."""
        payment: dict[str, Any] | None = self._wire.call(
            "giftcard_find_payment", repeat=True, idempotency_key=idempotency_key
        )
        return payment

    def find_offered_payment(self, job: Job, *, provider: str) -> dict[str, Any]:
        """Return {reference, instead}: the payment that the job's order can accept, else what was paid instead."""
        return self._dict(
            "giftcard_find_offered_payment",
            repeat=True,
            tenant_id=job.tenant_id,
            correlation_id=job.correlation_id,
            provider=provider,
        )

    def record_card(self, **arguments: Any) -> dict[str, Any]:
        """Record the card of an order; an order has one.

        Raises:
            Refused: GC409: the order has another card, or is not paid.
            Conflict: giftcard_cards_number_key: the number exists.
        """
        return self._dict("giftcard_record_card", repeat=True, **arguments)

    def block_card(self, tenant_id: str, correlation_id: str, *, balance: int | None) -> dict[str, Any]:
        """Record that the card of an order is blocked, with what was left on it if that is known."""
        return self._dict(
            "giftcard_block_card", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id, balance=balance
        )

    # Decisions of operators

    def make_free_of_charge(
        self, tenant_id: str, correlation_id: str, *, reason: str, caller: Caller
    ) -> dict[str, Any]:
        """Waive the payment of an order."""
        arguments = {"tenant_id": tenant_id, "correlation_id": correlation_id, "reason": reason, "by": caller.name}
        return self._dict("giftcard_make_free_of_charge", repeat=True, **arguments)

    def correct_recipient(
        self, tenant_id: str, correlation_id: str, *, customer: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Change the recipient of an order."""
        arguments = {"tenant_id": tenant_id, "correlation_id": correlation_id, "customer": customer, "by": caller.name}
        return self._dict("giftcard_correct_recipient", repeat=True, **arguments)

    def list_differences(self, *, tenant_id: str | None, verify: bool, limit: int) -> dict[str, Any]:
        """Return where money and cards do not match."""
        return self._dict("giftcard_list_differences", repeat=True, tenant_id=tenant_id, verify=verify, limit=limit)

    def accept_difference(self, *, caller: Caller, **arguments: Any) -> dict[str, Any]:
        """Accept a difference. Not repeated on a lost connection: a second call would not find it."""
        return self._dict("giftcard_accept_difference", by=caller.name, **arguments)

    def record_order_event(self, *, caller: Caller, **arguments: Any) -> dict[str, Any]:
        """Record a movement of the money of an order, of its own payment unless another one is named."""
        return self._dict("giftcard_record_order_event", repeat=True, by=caller.name, **arguments)

    def request_block(self, tenant_id: str, correlation_id: str, *, caller: Caller) -> dict[str, Any]:
        """Enqueue the job that blocks the card of an order, whether or not the order is paid."""
        arguments = {"tenant_id": tenant_id, "correlation_id": correlation_id, "by": caller.name}
        return self._dict("giftcard_request_block", repeat=True, **arguments)

    def resend_mail(self, tenant_id: str, correlation_id: str, *, caller: Caller, **arguments: Any) -> dict[str, Any]:
        """Have the mail of an order sent again. Repeated on a lost connection, it finds the job that waits."""
        flow = {"tenant_id": tenant_id, "correlation_id": correlation_id}
        return self._dict("giftcard_resend_mail", repeat=True, **flow, **arguments, by=caller.name)

    # Reading

    def find_orders(self, text: str, *, limit: int, tenant_id: str | None) -> dict[str, Any]:
        """Return the orders that fit a text, the newest first, with their recipients in clear."""
        return self._dict("giftcard_find_orders", repeat=True, text=text, limit=limit, tenant_id=tenant_id)

    def order_story(self, tenant_id: str, correlation_id: str, **known: Any) -> dict[str, Any]:
        """Return all that is known of an order, with its recipient in clear. `known`: the stages of this code."""
        flow = {"tenant_id": tenant_id, "correlation_id": correlation_id}
        return self._dict("giftcard_order_story", repeat=True, **flow, **known)
