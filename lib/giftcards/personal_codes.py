"""Personal codes: a name and four digits, easy to read out on the phone.

They are no proof of identity: anyone who knows a customer's name and number can compute the code.
"""

import random
import re
import unicodedata

_NAME_LENGTH = 10
_NAMELESS = "CUST"


def candidates(
    given_name: str, external_id: str | None, *, attempt: int, rng: random.Random, count: int = 5
) -> list[str]:
    """Return `count` different codes to try, best first.

    The first code of `attempt` 1 ends in the last four digits of the external id, if it has any; all others end in
    random digits.
    """
    name = _name(given_name)
    known = _last_digits(external_id or "") if attempt == 1 else None
    random_digits = [f"{number:04}" for number in rng.sample(range(10_000), count)]
    distinct = dict.fromkeys([known, *random_digits] if known else random_digits)
    return [name + digits for digits in distinct][:count]


def _name(given_name: str) -> str:
    """Return the A–Z and 0–9 of the first word with a letter or a digit, or CUST."""
    from anyascii import anyascii  # slow to load, and only one stage needs it

    word = next((word for word in map(_without_symbols, given_name.split()) if _is_word(word)), "")
    # Remove symbols before transliteration: anyascii spells out emoji (🎁 becomes ":gift:").
    return re.sub(r"[^A-Z0-9]", "", anyascii(word).upper())[:_NAME_LENGTH] or _NAMELESS


def _without_symbols(word: str) -> str:
    """Return only letters, their marks (half of an Indian name) and numbers."""
    return "".join(char for char in word if unicodedata.category(char)[0] in "LMN")


def _is_word(letters: str) -> bool:
    return any(unicodedata.category(char)[0] in "LN" for char in letters)


def _last_digits(external_id: str) -> str | None:
    """Return the last four ASCII digits, padded with zeros, or None if there are no digits."""
    digits = re.sub(r"[^0-9]", "", external_id)
    return digits[-4:].zfill(4) if digits else None
