"""Operations on webhook endpoints, shared by the web API and the CLI."""

import hashlib
import json
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.encryption import Cipher
from lib.errors import Failure, Invalid, Refused
from lib.safe_http import url as safe_url
from lib.store.store import Store
from lib.validation import StrictModel
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest
from lib.webhooks.secrets import place_of, secret_cipher
from lib.webhooks.signing import new_secret

Json = dict[str, Any]


class Endpoints:
    """Webhook endpoints in a store; the audit records each act. Only `create` and `rotate` return a secret, once."""

    def __init__(self, store: Store, settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._settings = settings
        self._caller = caller

    def find(self, page: EndpointPage) -> Json:
        """Return a page of endpoints, newest first."""
        tenant_id = self._caller.only(page.tenant_id)
        return self._store.list_webhook_endpoints(tenant_id=tenant_id, older=page.older, limit=page.limit)

    def show(self, endpoint_id: int) -> Json:
        """Return an endpoint."""
        return self._store.webhook_endpoint(endpoint_id, tenant_id=self._caller.tenant_id)

    def create(self, request: EndpointRequest, *, idempotency_key: str | None = None) -> Json:
        """Create an endpoint and return it with its secret.

        The same key with the same request returns the same endpoint. With another request it is refused (GC422).
        """
        self._check(request.url)
        cipher = self._cipher()
        tenant_id = self._caller.tenant(request.tenant_id)
        # Its secret is bound to its id, so the id comes first.
        endpoint_id = self._store.next_webhook_endpoint_id()
        endpoint = self._store.create_webhook_endpoint(
            endpoint_id=endpoint_id,
            tenant_id=tenant_id,
            url=request.url,
            events=tuple(request.events),
            enabled=request.enabled,
            secret_encrypted=cipher.encrypt(new_secret(), place_of(tenant_id, endpoint_id)),
            idempotency_key=idempotency_key,
            body_hash=_hash(request.model_copy(update={"tenant_id": tenant_id})),
            caller=self._caller,
        )
        return self._with_secret(endpoint)

    def update(self, endpoint_id: int, request: EndpointPatch) -> Json:
        """Change the URL, the events, or whether it is enabled."""
        changes = request.model_dump(exclude_none=True)
        if request.url:
            self._check(request.url)
        if request.events:
            changes["events"] = tuple(request.events)
        return self._store.update_webhook_endpoint(endpoint_id, caller=self._caller, **changes)

    def delete(self, endpoint_id: int) -> Json:
        """Delete an endpoint. Its pending webhooks are cancelled when they run."""
        return self._store.delete_webhook_endpoint(endpoint_id, caller=self._caller)

    def rotate(self, endpoint_id: int, request: RotateRequest, *, idempotency_key: str | None = None) -> Json:
        """Create a new secret. The previous one continues to sign for `former_hours`.

        The key of the latest rotation with the same request returns the same secret. With another request it is refused
        (GC422).
        """
        cipher = self._cipher()
        place = place_of(self.show(endpoint_id)["tenant_id"], endpoint_id)
        endpoint = self._store.rotate_webhook_secret(
            endpoint_id,
            secret_encrypted=cipher.encrypt(new_secret(), place),
            former_seconds=request.former_hours * 3600,
            idempotency_key=idempotency_key,
            body_hash=_hash(request),
            caller=self._caller,
        )
        return self._with_secret(endpoint)

    def test(self, endpoint_id: int) -> Json:
        """Enqueue a test event and return its job's id and its own."""
        return self._store.test_webhook_endpoint(endpoint_id, caller=self._caller)

    def _check(self, url: str) -> None:
        try:
            parsed = safe_url.parse(url)
            safe_url.check(parsed, allowed=self._settings.giftcard_allowed_networks)
            safe_url.check_encrypted(parsed, environment=self._settings.environment)
        except ValueError as error:
            raise Invalid(f"url {error}", field="url") from None

    def _cipher(self) -> Cipher:
        if self._settings.giftcard_encryption_keys is None:
            raise Refused("GIFTCARD_ENCRYPTION_KEYS is not set: set it to store webhook secrets", sqlstate="GC409")
        return secret_cipher(self._settings)

    def _with_secret(self, endpoint: Json) -> Json:
        """Return an endpoint with its secret in clear: the new one, or that of the request which this one repeats."""
        encrypted = endpoint.pop("secret_encrypted")
        try:
            secret = self._cipher().decrypt(encrypted, place_of(endpoint["tenant_id"], endpoint["id"]))
        except Failure as failure:
            raise Refused(f"{failure}; to replace the secret, rotate it", sqlstate="GC409") from None
        return endpoint | {"secret": secret}


def _hash(request: StrictModel) -> str:
    """Return the SHA-256 of a request in hex, by which a repeated one is recognized."""
    body = json.dumps(request.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()
