"""Personal codes: a name and four digits that a customer can say on the phone."""

import random
import re
import unicodedata

_NAME_LENGTH = 10
_NAMELESS = "CUST"


def candidates(
    given_name: str, external_id: str | None, *, attempt: int, rng: random.Random, handful: int = 5
) -> list[str]:
    """`handful` different codes to try, best first.

    The first one of `attempt` 1 ends in the last four digits of the external id, where it has any; every other one
    in random digits.
    """
    name = _name(given_name)
    known = _last_digits(external_id or "") if attempt == 1 else None
    random_digits = [f"{number:04}" for number in rng.sample(range(10_000), handful)]
    distinct = dict.fromkeys([known, *random_digits] if known else random_digits)
    return [name + digits for digits in distinct][:handful]


def _name(given_name: str) -> str:
    """A–Z and 0–9 of the first word that has a letter or a digit, or CUST."""
    from anyascii import anyascii  # its tables are loaded when first used: only by the stage that needs them

    word = next((word for word in map(_without_symbols, given_name.split()) if _is_word(word)), "")
    # Symbols go before transliteration: anyascii spells emoji out (🎁 becomes ":gift:").
    return re.sub(r"[^A-Z0-9]", "", anyascii(word).upper())[:_NAME_LENGTH] or _NAMELESS


def _without_symbols(word: str) -> str:
    """Letters, the marks that belong to them (half of an Indian name), and numbers."""
    return "".join(char for char in word if unicodedata.category(char)[0] in "LMN")


def _is_word(letters: str) -> bool:
    return any(unicodedata.category(char)[0] in "LN" for char in letters)


def _last_digits(external_id: str) -> str | None:
    """The last four ASCII digits, zeros on the left; None if there is not one."""
    digits = re.sub(r"[^0-9]", "", external_id)
    return digits[-4:].zfill(4) if digits else None
