"""Amounts: integers in a currency's minor unit (2500 in USD is 25 dollars)."""

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

# Currencies whose ISO 4217 minor unit does not have two digits. Babel's digits come from CLDR and are for display: the
# forint, the rupiah and the Colombian peso have none there, and payment services would read the same integer as a
# hundredth of it.
_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"


# It takes milliseconds, and files have thousands of orders in a few currencies.
@lru_cache(maxsize=256)
def is_currency(code: str) -> bool:
    """Return whether `code` is the upper-case ISO 4217 code of a legal tender of today (so not DEM, XAU or XXX)."""
    # Babel's data is slow to load, and the cron endpoint does not need it.
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

    return any(code in get_territory_currencies(territory) for territory in get_global("territory_currencies"))


def minor_digits(currency: str) -> int:
    """Return how many decimals a major unit has: USD 2, JPY 0, KWD 3; 2 for an unknown code."""
    return 0 if currency in _NO_DIGITS.split() else 3 if currency in _THREE_DIGITS.split() else 2


def format_money(amount: int, currency: str) -> str:
    """Format `amount` minor units for en_US: `$25.00`, `¥2,500`, `KWD 2.500`."""
    from babel.numbers import format_currency

    digits = minor_digits(currency)
    text = format_currency(
        Decimal(amount).scaleb(-digits),
        currency,
        format="¤#,##0" + ("." + "0" * digits if digits else ""),
        locale="en_US",
        currency_digits=False,
    )
    return _spaced(text)


def too_little(amount: int, currency: str, least_amounts: Iterable[tuple[str, int]]) -> str | None:
    """Return why an amount is less than an order may have (`GIFTCARD_LEAST_AMOUNTS`), or None."""
    least = dict(least_amounts).get(currency, 0)
    if amount >= least:
        return None
    return f"{format_money(amount, currency)} is too little: an order has at least {format_money(least, currency)}"


def _spaced(text: str) -> str:
    """Put a space after a symbol that ends in a letter, which Babel does not: `CHF25.00` → `CHF 25.00`."""
    symbol = text.rstrip("0123456789.,")
    return f"{symbol} {text[len(symbol) :]}" if symbol[-1:].isalpha() else text
