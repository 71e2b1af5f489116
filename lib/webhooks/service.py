"""Operations on webhook endpoints, shared by the web API and the CLI."""

from typing import Any

from lib.config.settings import Settings
from lib.encryption import cipher, split_keys
from lib.errors import Invalid, Refused
from lib.safe_http import url as safe_url
from lib.store.store import Store
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest
from lib.webhooks.signing import new_secret

Json = dict[str, Any]


class Endpoints:
    """Webhook endpoints in a store. Only `create` and `rotate` return a secret, once."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def find(self, page: EndpointPage) -> Json:
        """Return a page of endpoints, newest first."""
        return self._store.list_webhook_endpoints(**page.model_dump())

    def show(self, endpoint_id: int) -> Json:
        """Return an endpoint."""
        return self._store.webhook_endpoint(endpoint_id)

    def create(self, request: EndpointRequest) -> Json:
        """Create an endpoint and return it with its secret."""
        self._check(request.url)
        secret = new_secret()
        endpoint = self._store.create_webhook_endpoint(
            tenant_id=request.tenant_id,
            url=request.url,
            events=tuple(request.events),
            enabled=request.enabled,
            secret_encrypted=self._encrypted(secret),
        )
        return endpoint | {"secret": secret}

    def update(self, endpoint_id: int, request: EndpointPatch) -> Json:
        """Change the URL, the events, or whether it is enabled."""
        changes = request.model_dump(exclude_none=True)
        if request.url:
            self._check(request.url)
        if request.events:
            changes["events"] = tuple(request.events)
        return self._store.update_webhook_endpoint(endpoint_id, **changes)

    def delete(self, endpoint_id: int) -> Json:
        """Delete an endpoint. Its pending webhooks are cancelled when they run."""
        return self._store.delete_webhook_endpoint(endpoint_id)

    def rotate(self, endpoint_id: int, request: RotateRequest) -> Json:
        """Create a new secret. The previous one continues to sign for `former_hours`."""
        secret = new_secret()
        endpoint = self._store.rotate_webhook_secret(
            endpoint_id, secret_encrypted=self._encrypted(secret), former_seconds=request.former_hours * 3600
        )
        return endpoint | {"secret": secret}

    def test(self, endpoint_id: int) -> Json:
        """Enqueue a test event and return its job's id and its own."""
        return self._store.test_webhook_endpoint(endpoint_id)

    def _check(self, url: str) -> None:
        try:
            safe_url.check(safe_url.parse(url), allowed=self._settings.giftcard_allowed_networks)
        except ValueError as error:
            raise Invalid(f"url {error}", field="url") from None

    def _encrypted(self, secret: str) -> str:
        keys = self._settings.giftcard_encryption_keys
        if keys is None:
            raise Refused("GIFTCARD_ENCRYPTION_KEYS is not set: set it to store webhook secrets", sqlstate="GC409")
        return cipher(split_keys(keys)).encrypt(secret.encode()).decode()
