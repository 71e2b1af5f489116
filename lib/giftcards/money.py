"""Amounts: integers in a currency's minor unit (2500 of USD is 25 dollars)."""

from decimal import Decimal

# ISO 4217's minor units where they are not two. Babel's own digits are CLDR's, made for showing prices: it gives the
# forint, the rupiah and the Colombian peso none, and payment services would read the same integer a hundred times
# smaller.
_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"


def is_currency(code: str) -> bool:
    """Whether `code` is an upper-case ISO 4217 code that is legal tender somewhere today (so not DEM, XAU or XXX)."""
    # Babel's data takes a while to load, and the door to the cron has no use for it.
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

    return any(code in get_territory_currencies(territory) for territory in get_global("territory_currencies"))


def minor_digits(currency: str) -> int:
    """How many decimals one major unit has: USD 2, JPY 0, KWD 3; 2 for a code nobody knows."""
    return 0 if currency in _NO_DIGITS.split() else 3 if currency in _THREE_DIGITS.split() else 2


def format_money(amount: int, currency: str) -> str:
    """`amount` minor units as a person in the United States reads them: `$25.00`, `¥2,500`, `KWD 2.500`."""
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


def _spaced(text: str) -> str:
    """`CHF25.00` → `CHF 25.00`: a symbol that ends in a letter stands apart, which Babel leaves to its callers."""
    symbol = text.rstrip("0123456789.,")
    return f"{symbol} {text[len(symbol) :]}" if symbol[-1:].isalpha() else text
