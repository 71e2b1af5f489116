"""Encryption of what the database must not be able to read by itself: card numbers, webhook secrets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet


def split_keys(setting: SecretStr | None) -> list[str]:
    """Return the keys of `GIFTCARD_ENCRYPTION_KEYS`, which separates them by commas, newest first."""
    return [key.strip() for key in setting.get_secret_value().split(",")] if setting else []


def cipher(keys: Sequence[str]) -> "MultiFernet":
    """Return a cipher that encrypts under the first Fernet key and decrypts under each, so that keys rotate.

    Raises:
        ValueError: no key, or one that cannot be used; it names the key by its position, never by its content.
    """
    from cryptography.fernet import MultiFernet  # half of a cold start, and few stages need it

    if not keys:
        raise ValueError("at least one encryption key is needed")
    return MultiFernet([_fernet(key, position=position) for position, key in enumerate(keys, start=1)])


def _fernet(key: str, *, position: int) -> "Fernet":
    from cryptography.fernet import Fernet

    try:
        return Fernet(key)
    except ValueError:
        # `from None`: the cause could carry the key into a traceback.
        raise ValueError(
            f"encryption key {position} is not a Fernet key: 32 bytes in URL-safe base64 are 44 characters"
        ) from None
