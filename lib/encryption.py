"""Encryption of card numbers and webhook secrets, which the database must not be able to read or to swap, and
signatures of links, which it must not be able to make.

A text is encrypted with AES-256-GCM for one purpose and one place, and written as `v2.<key id>.<nonce and text>`. Each
key of `GIFTCARD_ENCRYPTION_KEYS` is a master: HKDF-SHA256 (RFC 5869) derives a key per purpose from it, and its id. The
place is authenticated: a text that someone moves to another row is refused. Texts of the former form (Fernet) are bound
to no place, and are read until they are re-encrypted.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from lib.errors import PermanentError, TransientError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# Where a text belongs: its tenant, and what is unique there, such as a flow.
Place = tuple[str, str]

_VERSION = "v2"
_KEY_BYTES = 32
_ID_BYTES = 6
_NONCE_BYTES = 12
_SIGNATURE_BYTES = 16


def split_keys(setting: SecretStr | None) -> list[str]:
    """Return the keys of `GIFTCARD_ENCRYPTION_KEYS` (comma-separated, newest first)."""
    return [key.strip() for key in setting.get_secret_value().split(",")] if setting else []


class Cipher:
    """Encrypts texts of one purpose under the first key and decrypts them under each, so that keys rotate.

    `key_ids`: the ids of the keys, newest first. They distinguish keys and show nothing of their content.
    """

    def __init__(self, keys: Sequence[str], *, purpose: str) -> None:
        """Raise ValueError if there is no key, or one is invalid; it names the key's position, never its content."""
        if not keys:
            raise ValueError("at least one encryption key is required")
        masters = _masters(keys)
        self._purpose = purpose
        self._keys = keys
        self.key_ids = tuple(_derived(master, "key id", length=_ID_BYTES).hex() for master in masters)
        self._masters = dict(zip(self.key_ids, masters, strict=True))

    def encrypt(self, text: str, place: Place) -> str:
        """Encrypt a text for its place. The result differs on each call."""
        nonce = os.urandom(_NONCE_BYTES)
        key_id = self.key_ids[0]
        content = nonce + self._aead(key_id).encrypt(nonce, text.encode(), self._bound(place))
        return f"{_VERSION}.{key_id}.{base64.urlsafe_b64encode(content).decode()}"

    def decrypt(self, encrypted: str, place: Place) -> str:
        """Decrypt the text of a place.

        Raises:
            TransientError: no key fits: the configuration is at fault.
            PermanentError: the text was changed, or belongs to another place or purpose.
        """
        from cryptography.exceptions import InvalidTag

        if not is_bound(encrypted):
            return self._decrypt_unbound(encrypted)
        _, key_id, content = encrypted.split(".", 2)
        if key_id not in self._masters:
            raise self._no_key()
        try:
            decoded = base64.urlsafe_b64decode(content)
            nonce, sealed = decoded[:_NONCE_BYTES], decoded[_NONCE_BYTES:]
            return self._aead(key_id).decrypt(nonce, sealed, self._bound(place)).decode()
        except (InvalidTag, ValueError):
            raise PermanentError(
                f"the {self._purpose} was changed in the database, or is that of another row"
            ) from None

    def _decrypt_unbound(self, encrypted: str) -> str:
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet

        try:
            return MultiFernet([Fernet(key) for key in self._keys]).decrypt(encrypted.encode()).decode()
        except InvalidToken:
            raise self._no_key() from None

    def _no_key(self) -> TransientError:
        return TransientError(
            f"no encryption key decrypts the {self._purpose}: add the older key to GIFTCARD_ENCRYPTION_KEYS"
        )

    def _aead(self, key_id: str) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # takes half of a cold start, few stages need it

        return AESGCM(_derived(self._masters[key_id], self._purpose, length=_KEY_BYTES))

    def _bound(self, place: Place) -> bytes:
        # JSON is unambiguous: no two places have the same bytes.
        return json.dumps([_VERSION, self._purpose, *place]).encode()


class Signer:
    """Signs bytes for one purpose under the first key, and accepts the signatures of each, so that keys rotate."""

    def __init__(self, keys: Sequence[str], *, purpose: str) -> None:
        """Raise ValueError if one of the keys is invalid; it names the key's position, never its content."""
        self._keys = [_derived(master, purpose, length=_KEY_BYTES) for master in _masters(keys)]

    def sign(self, content: bytes) -> bytes:
        """Return the signature: the first 16 bytes of HMAC-SHA256."""
        return _signature(self._keys[0], content)

    def accepts(self, content: bytes, signature: bytes) -> bool:
        """Return whether one of the keys has signed this. It takes the same time for any signature."""
        matches = [hmac.compare_digest(_signature(key, content), signature) for key in self._keys]
        return any(matches)


def is_bound(encrypted: str) -> bool:
    """Return whether a text is bound to its place, which those of the former form are not."""
    return encrypted.startswith(f"{_VERSION}.") and encrypted.count(".") >= 2


def _masters(keys: Sequence[str]) -> list[bytes]:
    return [_master(key, position=position) for position, key in enumerate(keys, start=1)]


def _master(key: str, *, position: int) -> bytes:
    try:
        decoded = base64.urlsafe_b64decode(key)
    except ValueError:
        decoded = b""
    if len(decoded) != _KEY_BYTES:
        # `from None`: the cause could carry the key into a traceback.
        raise ValueError(
            f"encryption key {position} is not a Fernet key: 32 bytes in URL-safe base64 are 44 characters"
        ) from None
    return decoded


def _derived(master: bytes, use: str, *, length: int) -> bytes:
    # HKDF-SHA256 without a salt, of one block: the library's takes a tenth of a second of a cold start.
    extracted = hmac.digest(bytes(_KEY_BYTES), master, hashlib.sha256)
    return hmac.digest(extracted, f"giftcard {use} {_VERSION}".encode() + b"\x01", hashlib.sha256)[:length]


def _signature(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, hashlib.sha256)[:_SIGNATURE_BYTES]
