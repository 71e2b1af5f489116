"""Amounts: integers in a currency's minor unit (2500 in USD is 25 dollars)."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cache

# Currencies whose ISO 4217 minor unit does not have two digits. Babel's digits come from CLDR and are for display: the
# forint, the rupiah and the Colombian peso have none there, and payment services would read the same integer as a
# hundredth of it.
_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"

# The day of `is_currency`. Not today: an order that is accepted must stay valid until its mail is sent.
_DAY = date(2026, 11, 29)
_DEFAULT_LOCALE = "en_US"


def is_currency(code: str) -> bool:
    """Return whether `code` is the upper-case ISO 4217 code of a legal tender (so not DEM, CHE, XAU or XXX).

    By the Unicode CLDR as Babel ships it, on a fixed day: see `docs/languages.md`.
    """
    return code in _currencies()


@cache
def _currencies() -> frozenset[str]:
    # Babel's data is slow to load, and the cron endpoint does not need it.
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

    territories = get_global("territory_currencies")
    return frozenset(code for name in territories for code in get_territory_currencies(name, start_date=_DAY))


def minor_digits(currency: str) -> int:
    """Return how many decimals a major unit has: USD 2, JPY 0, KWD 3; 2 for an unknown code."""
    return 0 if currency in _NO_DIGITS.split() else 3 if currency in _THREE_DIGITS.split() else 2


def format_money(amount: int, currency: str, locale: str = _DEFAULT_LOCALE) -> str:
    """Format `amount` minor units for a locale of Babel.

    `$25.00`, `¥2,500` and `KWD 2.500` for en_US, `25,00 $` for de, `CHF 25.00` for de_CH. All spaces are plain ones.
    """
    from babel import Locale
    from babel.numbers import get_currency_symbol, get_decimal_symbol, get_group_symbol

    parsed = Locale.parse(locale)
    digits = minor_digits(currency)
    pattern = parsed.currency_formats["standard"]
    # Not by Babel's format_currency: its digits are those of CLDR, it puts no space after `Cg.`, and it loses the
    # apostrophes of 1'000'000.
    whole, _, fraction = f"{Decimal(abs(amount)).scaleb(-digits):.{digits}f}".partition(".")
    number = _grouped(whole, pattern.grouping, get_group_symbol(parsed))
    if fraction:
        number += get_decimal_symbol(parsed) + fraction
    symbol = get_currency_symbol(currency, parsed)
    before, after = pattern.prefix[amount < 0], pattern.suffix[amount < 0]
    if before.endswith("¤") and not _is_sign(symbol[-1]):
        before += " "
    if after.startswith("¤") and not _is_sign(symbol[0]):
        after = f" {after}"
    return re.sub(r"\s", " ", f"{before}{number}{after}".replace("¤", symbol))


def too_little(amount: int, currency: str, least_amounts: Iterable[tuple[str, int]]) -> str | None:
    """Return why an amount is less than an order may have (`GIFTCARD_LEAST_AMOUNTS`), or None."""
    least = dict(least_amounts).get(currency, 0)
    if amount >= least:
        return None
    return f"{format_money(amount, currency)} is too little: an order has at least {format_money(least, currency)}"


def _grouped(digits: str, sizes: tuple[int, int], symbol: str) -> str:
    """Return digits in groups: the last one of the first size, the others of the second (`12,34,567`)."""
    last, others = sizes
    groups = [digits[-last:]]
    digits = digits[:-last]
    while digits:
        groups.append(digits[-others:])
        digits = digits[:-others]
    return symbol.join(reversed(groups))


def _is_sign(char: str) -> bool:
    return unicodedata.category(char).startswith("S")
