"""The calls about webhooks: endpoints that are told, events that come in."""

from typing import Any

from lib.job import Job
from lib.store.calls import Calls


class WebhookCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/`, from 70 on."""

    def create_webhook_endpoint(self, **arguments: Any) -> dict[str, Any]:
        """A new one. Not repeated on a lost connection: the second would find it there, and its secret be lost."""
        return self._dict("giftcard_create_webhook_endpoint", **arguments)

    def webhook_endpoint(self, endpoint_id: int) -> dict[str, Any]:
        """One, as people see it."""
        return self._dict("giftcard_webhook_endpoint", repeat=True, endpoint_id=endpoint_id)

    def list_webhook_endpoints(self, *, tenant_id: str | None, older: int | None, limit: int) -> dict[str, Any]:
        """A page of them."""
        return self._dict("giftcard_list_webhook_endpoints", repeat=True, tenant_id=tenant_id, older=older, limit=limit)

    def update_webhook_endpoint(self, endpoint_id: int, **changes: Any) -> dict[str, Any]:
        """What is given."""
        return self._dict("giftcard_update_webhook_endpoint", repeat=True, endpoint_id=endpoint_id, **changes)

    def delete_webhook_endpoint(self, endpoint_id: int) -> dict[str, Any]:
        """For good. Not repeated on a lost connection: the second would not find it."""
        return self._dict("giftcard_delete_webhook_endpoint", endpoint_id=endpoint_id)

    def rotate_webhook_secret(
        self, endpoint_id: int, *, secret_encrypted: str, former_seconds: float
    ) -> dict[str, Any]:
        """Not repeated on a lost connection: the second would take the new secret for the former one."""
        return self._dict(
            "giftcard_rotate_webhook_secret",
            endpoint_id=endpoint_id,
            secret_encrypted=secret_encrypted,
            former_seconds=former_seconds,
        )

    def test_webhook_endpoint(self, endpoint_id: int) -> dict[str, Any]:
        """A test event. Not repeated: each call is an event of its own."""
        return self._dict("giftcard_test_webhook_endpoint", endpoint_id=endpoint_id)

    def webhook_target(self, job: Job, *, endpoint_id: int) -> dict[str, Any] | None:
        """What an attempt to deliver needs. None: the endpoint is off or gone, and the job will be cancelled."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_webhook_target", repeat=True, job_id=job.id, lease_id=job.lease_id, endpoint_id=endpoint_id
        )
        return answer

    def disable_webhook_endpoint(self, endpoint_id: int, *, url: str, reason: str) -> None:
        """Its receiver wants no more. One that has moved to another address meanwhile stays on."""
        self._dict("giftcard_disable_webhook_endpoint", repeat=True, endpoint_id=endpoint_id, url=url, reason=reason)

    def receive_event(self, *, action: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Record an event of a vendor once, and do what it causes. A job in `action` is prepared."""
        return self._dict("giftcard_receive_event", repeat=True, action=action, **arguments)

    def inbound_payment(self, job: Job, *, amount: int, currency: str) -> dict[str, Any] | None:
        """The payment that has come in for the job's order. None: none so far."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_inbound_payment",
            repeat=True,
            tenant_id=job.tenant_id,
            correlation_id=job.correlation_id,
            amount=amount,
            currency=currency,
        )
        return answer
