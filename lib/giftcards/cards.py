"""Card numbers: create, check, encrypt and look up."""

import hashlib
import hmac
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lib.config.settings import Settings
from lib.encryption import Cipher, Place, is_bound, split_keys
from lib.errors import TransientError

# ISO/IEC 7812 reserves 9… for national use, so these numbers never collide with bank cards.
ISSUER_PREFIX = "9900"
_LENGTH = 16
_LOOKUP_KEY_LENGTH = 32


def new_number(rng: random.Random) -> str:
    """Return a 16-digit number with a Luhn check digit. Pass `secrets.SystemRandom()`: it must be unpredictable."""
    free = _LENGTH - len(ISSUER_PREFIX) - 1
    body = f"{ISSUER_PREFIX}{rng.randrange(10**free):0{free}}"
    return f"{body}{-_luhn_sum(body + '0') % 10}"


def has_valid_check_digit(number: str) -> bool:
    """Return whether `number` is 16 digits with a valid check digit (Luhn, ISO/IEC 7812-1)."""
    return re.fullmatch(r"[0-9]{16}", number) is not None and _luhn_sum(number) % 10 == 0


def _luhn_sum(number: str) -> int:
    """Return the sum of the digits, every second one from the right replaced by the digit sum of its double."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return sum(map(int, number[-1::-2])) + sum(doubled)


@dataclass(frozen=True, slots=True)
class SealedNumber:
    """A card number as stored: encrypted, hashed for lookup, and its last four digits for display."""

    encrypted: str
    number_hash: str
    last4: str


class Vault:
    """Encrypts and decrypts card numbers, each bound to its flow: (tenant id, correlation id).

    `encryption_keys` are Fernet keys, newest first: the first encrypts, each decrypts, so that keys can rotate.
    `lookup_key` (at least 32 characters) keys the hash used to find a number, so that the digits cannot be guessed from
    the hash. It cannot rotate: a new key would no longer find existing cards.
    """

    def __init__(self, encryption_keys: Sequence[str], *, lookup_key: str) -> None:
        """Raise ValueError for an unusable key, naming its position and never its content."""
        if len(lookup_key) < _LOOKUP_KEY_LENGTH:
            raise ValueError(f"the lookup key is shorter than {_LOOKUP_KEY_LENGTH} characters")
        self._cipher = Cipher(encryption_keys, purpose="card number")
        self._lookup_key = lookup_key.encode()

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the encryption keys, newest first."""
        return self._cipher.key_ids

    def seal(self, number: str, flow: Place) -> SealedNumber:
        """Encrypt the number of a flow's card: `encrypted` differs on each call, `number_hash` does not."""
        return SealedNumber(
            encrypted=self._cipher.encrypt(number, flow),
            number_hash=self.number_hash(number),
            last4=number[-4:],
        )

    def open(self, encrypted: str, flow: Place, *, number_hash: str) -> str:
        """Decrypt the number of a flow's card.

        Raises:
            TransientError: no key fits; or a number that is not bound to its flow does not have the hash.
            PermanentError: it was changed, or is the number of another flow.
        """
        number = self._cipher.decrypt(encrypted, flow)
        # The former form is bound to nothing but its hash.
        if not is_bound(encrypted) and not hmac.compare_digest(self.number_hash(number), number_hash):
            raise TransientError(
                "the card number does not match its hash: it is another card's, or GIFTCARD_LOOKUP_KEY has changed"
            )
        return number

    def number_hash(self, number: str) -> str:
        """Return the HMAC-SHA256 in hex that identifies a card by its number."""
        return hmac.new(self._lookup_key, number.encode(), hashlib.sha256).hexdigest()


def missing_key(settings: Settings) -> str | None:
    """Return the name of the first missing setting that card numbers need, or None."""
    if settings.giftcard_encryption_keys is None:
        return "GIFTCARD_ENCRYPTION_KEYS"
    return "GIFTCARD_LOOKUP_KEY" if settings.giftcard_lookup_key is None else None


def vault_of(settings: Settings) -> Vault:
    """Return a vault with the keys of `GIFTCARD_ENCRYPTION_KEYS` and `GIFTCARD_LOOKUP_KEY`."""
    lookup_key = settings.giftcard_lookup_key
    return Vault(
        split_keys(settings.giftcard_encryption_keys), lookup_key=lookup_key.get_secret_value() if lookup_key else ""
    )
