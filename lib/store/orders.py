"""The calls of the domain: orders and what they become."""

from typing import Any

from lib.store.calls import Calls


class OrderCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/41_order_functions.sql`."""

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """Store an order and enqueue its first job, in one transaction. `lib.giftcards.submit` prepares the job."""
        return self._dict("giftcard_submit_order", repeat=True, **arguments)

    def save_customer(self, **arguments: Any) -> dict[str, Any]:
        """One per (tenant, external id), or per (tenant, e-mail)."""
        return self._dict("giftcard_save_customer", repeat=True, **arguments)

    def assign_code(self, customer_id: int, *, candidates: tuple[str, ...]) -> str | None:
        """The customer's code; None: every candidate is taken."""
        answer = self._dict("giftcard_assign_code", repeat=True, customer_id=customer_id, candidates=candidates)
        code: str | None = answer["code"]
        return code

    def record_payment(self, **arguments: Any) -> dict[str, Any]:
        """The order's one payment."""
        return self._dict("giftcard_record_payment", repeat=True, **arguments)

    def find_payment(self, idempotency_key: str) -> dict[str, Any] | None:
        """The payment made under a key."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_find_payment", repeat=True, idempotency_key=idempotency_key
        )
        return answer

    def record_card(self, **arguments: Any) -> dict[str, Any]:
        """The order's one card. Conflict(giftcard_cards_number_key): another card has this number."""
        return self._dict("giftcard_record_card", repeat=True, **arguments)

    def find_card(self, tenant_id: str, correlation_id: str) -> dict[str, Any] | None:
        """The order's card, its number encrypted."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_find_card", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id
        )
        return answer
