"""Amounts in major units, as people and shops write them. What could be read in two ways is refused."""

import re
from decimal import Decimal

from lib.giftcards.money import minor_digits
from lib.giftcards.order_files.cells import trimmed

_PLAIN = re.compile(r"([0-9]{1,12})(?:\.([0-9]+))?")
_COMMA = re.compile(r"([0-9]{1,12}),([0-9]+)")
_THOUSANDS = 3

_REASONS = (
    (re.compile(r"[-−(].*|.*-"), "is not more than 0"),
    (re.compile(r".*\d[eE][+-]?\d+"), "has an exponent: write it like 25.00"),
    (re.compile(r".*[\$€£¥₹₽₩₺₴₪¢].*|.*[A-Za-z]{1,3}\.?\s*\d.*|.*\d\s*[A-Za-z]{1,4}"), "has a currency in it: give the "
     "number alone, like 25.00, and the currency in its own column"),
    (re.compile(r"\d{1,3}(?:[.,\s'’]\d{3})+(?:[.,]\d+)?"), "may have separators of thousands: write it like 1234.00"),
    (re.compile(r"\d+,\d+"), "has a comma for the point, which only files with semicolons may have"),
)  # fmt: skip


def minor_units(cell: str, currency: str, *, decimal_comma: bool = False) -> int:
    """Convert `25.00` in USD to 2500; `decimal_comma`: also `25,00`.

    Where commas are decimal points, three decimals may be thousands: `1.000` and `1,000` are refused.

    Raises:
        ValueError: the reason, as a sentence that begins with the end of "amount …".
    """
    text = trimmed(cell)
    digits = minor_digits(currency)
    matched = _PLAIN.fullmatch(text) or (_COMMA.fullmatch(text) if decimal_comma else None)
    if not matched:
        raise ValueError(next((reason for pattern, reason in _REASONS if pattern.fullmatch(text)), _NOT_PLAIN))
    decimals = matched[2] or ""
    if decimal_comma and len(decimals) == _THOUSANDS:
        raise ValueError("may have separators of thousands, or three decimals: write it without them")
    if len(decimals) > digits:
        raise ValueError(f"has more decimals than its currency, which has {digits}")
    return int(Decimal(f"{matched[1]}.{decimals or 0}").scaleb(digits))


_NOT_PLAIN = "is not a plain number like 25.00"
