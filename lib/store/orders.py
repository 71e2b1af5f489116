"""Calls for orders: customers, personal codes, payments, cards."""

from typing import Any

from lib.store.calls import Calls


class OrderCalls(Calls):
    """Documented in `supabase/schemas/41_order_functions.sql`."""

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """Store an order and enqueue its first job, in one transaction. `lib.giftcards.submit` prepares the job."""
        return self._dict("giftcard_submit_order", repeat=True, **arguments)

    def save_customer(self, **arguments: Any) -> dict[str, Any]:
        """Create or update a customer, identified by (tenant, external id), or by (tenant, email)."""
        return self._dict("giftcard_save_customer", repeat=True, **arguments)

    def assign_code(self, customer_id: int, *, candidates: tuple[str, ...]) -> str | None:
        """Return the customer's code, assigned if need be; None: every candidate is taken."""
        assigned = self._dict("giftcard_assign_code", repeat=True, customer_id=customer_id, candidates=candidates)
        code: str | None = assigned["code"]
        return code

    def record_payment(self, **arguments: Any) -> dict[str, Any]:
        """Record the payment of an order; an order has one."""
        return self._dict("giftcard_record_payment", repeat=True, **arguments)

    def find_payment(self, idempotency_key: str) -> dict[str, Any] | None:
        """Return the payment recorded under a key."""
        payment: dict[str, Any] | None = self._wire.call(
            "giftcard_find_payment", repeat=True, idempotency_key=idempotency_key
        )
        return payment

    def record_card(self, **arguments: Any) -> dict[str, Any]:
        """Record the card of an order; an order has one. Conflict(giftcard_cards_number_key): the number exists."""
        return self._dict("giftcard_record_card", repeat=True, **arguments)

    def find_card(self, tenant_id: str, correlation_id: str) -> dict[str, Any] | None:
        """Return the order's card, with its number encrypted."""
        card: dict[str, Any] | None = self._wire.call(
            "giftcard_find_card", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id
        )
        return card
