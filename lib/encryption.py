"""Encryption of card numbers and webhook secrets, which the database must not be able to read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet


def split_keys(setting: SecretStr | None) -> list[str]:
    """Return the keys of `GIFTCARD_ENCRYPTION_KEYS` (comma-separated, newest first)."""
    return [key.strip() for key in setting.get_secret_value().split(",")] if setting else []


def cipher(keys: Sequence[str]) -> "MultiFernet":
    """Return a cipher that encrypts under the first Fernet key and decrypts under each, so that keys rotate.

    Raises:
        ValueError: there is no key, or one is invalid; it names the key's position, never its content.
    """
    from cryptography.fernet import MultiFernet  # takes half of a cold start, and few stages need it

    if not keys:
        raise ValueError("at least one encryption key is required")
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
