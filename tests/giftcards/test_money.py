"""Amounts in their currency's own form."""

import pytest

from lib.giftcards.money import format_money, is_currency, minor_digits


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (2500, "USD", "$25.00"),
        (5, "USD", "$0.05"),
        (123_456_789, "EUR", "€1,234,567.89"),
        (2500, "JPY", "¥2,500"),
        (2500, "KWD", "KWD 2.500"),
        (2500, "CHF", "CHF 25.00"),
        (100_000, "HUF", "HUF 1,000.00"),
    ],
)
def test_an_amount_is_shown_in_its_currencys_own_form(amount: int, currency: str, shown: str) -> None:
    assert format_money(amount, currency) == shown


@pytest.mark.parametrize(("currency", "digits"), [("USD", 2), ("JPY", 0), ("KWD", 3), ("IDR", 2), ("HUF", 2)])
def test_minor_digits_are_those_of_iso_4217(currency: str, digits: int) -> None:
    assert minor_digits(currency) == digits


@pytest.mark.parametrize("code", ["USD", "EUR", "JPY", "KWD", "XOF"])
def test_a_code_in_use_is_a_currency(code: str) -> None:
    assert is_currency(code)


@pytest.mark.parametrize("code", ["usd", "", "US", "USDX", "DEM", "XXX", "XAU", "ABC", " USD", "U\0D"])
def test_what_nobody_pays_with_is_no_currency(code: str) -> None:
    assert not is_currency(code)
