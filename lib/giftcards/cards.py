"""Card numbers: made, checked, and kept so that the database alone cannot tell them."""

import hashlib
import hmac
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lib.config.settings import Settings
from lib.encryption import cipher, split_keys
from lib.errors import TransientError

# ISO/IEC 7812 leaves 9… to national use: no number of ours can be mistaken for a bank's card.
ISSUER_PREFIX = "9900"
_LENGTH = 16
_LOOKUP_KEY_LENGTH = 32


def new_number(rng: random.Random) -> str:
    """A number of 16 digits, the last one a check digit. Give it `secrets.SystemRandom()`: a number is worth money."""
    free = _LENGTH - len(ISSUER_PREFIX) - 1
    body = f"{ISSUER_PREFIX}{rng.randrange(10**free):0{free}}"
    return f"{body}{-_luhn_sum(body + '0') % 10}"


def has_valid_check_digit(number: str) -> bool:
    """Whether these are 16 digits whose last one fits the others (Luhn, ISO/IEC 7812-1)."""
    return re.fullmatch(r"[0-9]{16}", number) is not None and _luhn_sum(number) % 10 == 0


def _luhn_sum(number: str) -> int:
    """Each second digit from the right counts double, and a double of two digits counts as their sum."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return sum(map(int, number[-1::-2])) + sum(doubled)


@dataclass(frozen=True, slots=True)
class SealedNumber:
    """What the database keeps of a card number: to read it again, to find it, to show it."""

    encrypted: str
    number_hash: str
    last4: str


class Vault:
    """Seals card numbers and opens them again.

    `encryption_keys` are Fernet keys, newest first: the first one seals, all of them open, so that keys rotate.
    `lookup_key` (at least 32 characters) makes the hash by which a number is found; without it the sixteen digits
    could be guessed from the hash. It does not rotate: a new one would lose the cards sealed before.
    """

    def __init__(self, encryption_keys: Sequence[str], *, lookup_key: str) -> None:
        """ValueError names the key that cannot be used by its place, never by its content."""
        if len(lookup_key) < _LOOKUP_KEY_LENGTH:
            raise ValueError(f"the lookup key is shorter than {_LOOKUP_KEY_LENGTH} characters")
        self._cipher = cipher(encryption_keys)
        self._lookup_key = lookup_key.encode()

    def seal(self, number: str) -> SealedNumber:
        """A different `encrypted` each time, the same `number_hash` each time."""
        return SealedNumber(
            encrypted=self._cipher.encrypt(number.encode()).decode(),
            number_hash=self.number_hash(number),
            last4=number[-4:],
        )

    def open(self, encrypted: str) -> str:
        """The number again. TransientError if no key fits: a key is missing, which is our fault and not the job's."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher.decrypt(encrypted.encode()).decode()
        except InvalidToken:
            raise TransientError("no encryption key opens this card number: is an older key missing?") from None

    def number_hash(self, number: str) -> str:
        """HMAC-SHA256 in hex: finds a card by its number."""
        return hmac.new(self._lookup_key, number.encode(), hashlib.sha256).hexdigest()


def missing_key(settings: Settings) -> str | None:
    """The setting without which no card number can be sealed or read; None: both are there."""
    if settings.giftcard_encryption_keys is None:
        return "GIFTCARD_ENCRYPTION_KEYS"
    return "GIFTCARD_LOOKUP_KEY" if settings.giftcard_lookup_key is None else None


def vault_of(settings: Settings) -> Vault:
    """The vault of `GIFTCARD_ENCRYPTION_KEYS` (by comma, newest first) and `GIFTCARD_LOOKUP_KEY`."""
    lookup_key = settings.giftcard_lookup_key
    return Vault(
        split_keys(settings.giftcard_encryption_keys), lookup_key=lookup_key.get_secret_value() if lookup_key else ""
    )
