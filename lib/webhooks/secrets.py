"""The secrets that sign webhooks, encrypted for the database."""

from lib.config.settings import Settings
from lib.encryption import Cipher, Place, split_keys


def secret_cipher(settings: Settings) -> Cipher:
    """Return the cipher of webhook secrets. Raise ValueError for an unusable key."""
    return Cipher(split_keys(settings.giftcard_encryption_keys), purpose="webhook secret")


def place_of(tenant_id: str, endpoint_id: int) -> Place:
    """Return what the secrets of an endpoint are bound to. Its present and its previous ones share it."""
    return tenant_id, str(endpoint_id)
