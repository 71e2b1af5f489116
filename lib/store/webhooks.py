"""Calls for webhooks: endpoints and deliveries, inbound events."""

from typing import Any

from lib.caller import Caller
from lib.job import Job
from lib.store.calls import Calls


class WebhookCalls(Calls):
    """Documented in `supabase/schemas/`, 60 to 62."""

    def next_webhook_endpoint_id(self) -> int:
        """Return the id for a new endpoint, which its secret is bound to."""
        return int(self._dict("giftcard_next_webhook_endpoint_id", repeat=True)["id"])

    def create_webhook_endpoint(
        self, *, caller: Caller, idempotency_key: str | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Create an endpoint, and return it with its encrypted secret.

        Repeated on a lost connection only with a key: without one, a second call would find the endpoint taken.
        """
        arguments |= {"idempotency_key": idempotency_key, "by": caller.name}
        return self._dict("giftcard_create_webhook_endpoint", repeat=idempotency_key is not None, **arguments)

    def webhook_endpoint(self, endpoint_id: int, *, tenant_id: str | None) -> dict[str, Any]:
        """Return an endpoint, without its secrets. `tenant_id`: the only tenant that the caller may see."""
        return self._dict("giftcard_webhook_endpoint", repeat=True, endpoint_id=endpoint_id, tenant_id=tenant_id)

    def list_webhook_endpoints(self, *, tenant_id: str | None, older: int | None, limit: int) -> dict[str, Any]:
        """Return a page of endpoints."""
        return self._dict("giftcard_list_webhook_endpoints", repeat=True, tenant_id=tenant_id, older=older, limit=limit)

    def update_webhook_endpoint(self, endpoint_id: int, *, caller: Caller, **changes: Any) -> dict[str, Any]:
        """Update the fields in `changes`."""
        return self._act("giftcard_update_webhook_endpoint", caller, repeat=True, endpoint_id=endpoint_id, **changes)

    def delete_webhook_endpoint(self, endpoint_id: int, *, caller: Caller) -> dict[str, Any]:
        """Delete an endpoint. Not repeated on a lost connection: a second call would not find it."""
        return self._act("giftcard_delete_webhook_endpoint", caller, endpoint_id=endpoint_id)

    def rotate_webhook_secret(
        self, endpoint_id: int, *, caller: Caller, idempotency_key: str | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Replace the secret, and return the endpoint with the new one, encrypted.

        Repeated on a lost connection only with a key: without one, a second call would demote the new secret.
        """
        arguments |= {"endpoint_id": endpoint_id, "idempotency_key": idempotency_key}
        return self._act("giftcard_rotate_webhook_secret", caller, repeat=idempotency_key is not None, **arguments)

    def test_webhook_endpoint(self, endpoint_id: int, *, caller: Caller) -> dict[str, Any]:
        """Send a test event. Not repeated: each call sends another event."""
        return self._act("giftcard_test_webhook_endpoint", caller, endpoint_id=endpoint_id)

    def webhook_target(self, job: Job, *, endpoint_id: int) -> dict[str, Any] | None:
        """Return {url, secrets, at} for a delivery. None: the endpoint is disabled or deleted, the job is cancelled."""
        target: dict[str, Any] | None = self._wire.call(
            "giftcard_webhook_target", repeat=True, job_id=job.id, lease_id=job.lease_id, endpoint_id=endpoint_id
        )
        return target

    def disable_webhook_endpoint(self, endpoint_id: int, *, url: str, reason: str) -> None:
        """Disable an endpoint whose receiver is gone, unless its URL has changed meanwhile."""
        self._dict("giftcard_disable_webhook_endpoint", repeat=True, endpoint_id=endpoint_id, url=url, reason=reason)

    def receive_event(self, *, action: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Record an event of a vendor once, and apply its action. A job in `action` is prepared.

        Return {kind, repeated, refused}; `refused`: why the books do not take it, so that it is ignored.
        """
        return self._dict("giftcard_receive_event", repeat=True, action=action, **arguments)
