"""What operators do to webhook endpoints, once: the web API and the command line are two doors to it."""

from typing import Any

from lib.config.settings import Settings
from lib.encryption import cipher, split_keys
from lib.errors import Invalid, Refused
from lib.safe_http import url as outside_url
from lib.store.store import Store
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest
from lib.webhooks.signing import new_secret

Json = dict[str, Any]


class Endpoints:
    """Over one store. A secret is in the answer of `create` and of `rotate`, and nowhere else ever again."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def find(self, page: EndpointPage) -> Json:
        """A page of them, the newest first."""
        return self._store.list_webhook_endpoints(**page.model_dump())

    def show(self, endpoint_id: int) -> Json:
        """One."""
        return self._store.webhook_endpoint(endpoint_id)

    def create(self, wanted: EndpointRequest) -> Json:
        """A new one, with its secret."""
        self._check(wanted.url)
        secret = new_secret()
        made = self._store.create_webhook_endpoint(
            tenant_id=wanted.tenant_id,
            url=wanted.url,
            events=tuple(wanted.events),
            enabled=wanted.enabled,
            secret_encrypted=self._sealed(secret),
        )
        return made | {"secret": secret}

    def change(self, endpoint_id: int, wanted: EndpointPatch) -> Json:
        """Another address, other events, on or off."""
        changes = wanted.model_dump(exclude_none=True)
        if wanted.url:
            self._check(wanted.url)
        if wanted.events:
            changes["events"] = tuple(wanted.events)
        return self._store.update_webhook_endpoint(endpoint_id, **changes)

    def delete(self, endpoint_id: int) -> Json:
        """For good. Webhooks that wait for it are cancelled when their turn comes."""
        return self._store.delete_webhook_endpoint(endpoint_id)

    def rotate(self, endpoint_id: int, wanted: RotateRequest) -> Json:
        """Another secret; the one before it signs beside it for a while."""
        secret = new_secret()
        changed = self._store.rotate_webhook_secret(
            endpoint_id, secret_encrypted=self._sealed(secret), former_seconds=wanted.former_hours * 3600
        )
        return changed | {"secret": secret}

    def test(self, endpoint_id: int) -> Json:
        """Enqueues a test event; its job's id and its own."""
        return self._store.test_webhook_endpoint(endpoint_id)

    def _check(self, url: str) -> None:
        try:
            outside_url.check(outside_url.parse(url), allowed=self._settings.giftcard_allowed_networks)
        except ValueError as error:
            raise Invalid(f"url {error}", field="url") from None

    def _sealed(self, secret: str) -> str:
        keys = self._settings.giftcard_encryption_keys
        if keys is None:
            raise Refused("GIFTCARD_ENCRYPTION_KEYS is not set: a secret cannot be kept", sqlstate="GC409")
        return cipher(split_keys(keys)).encrypt(secret.encode()).decode()
