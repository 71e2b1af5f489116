"""Amounts in their currency's own form."""

import re

import pytest

from lib.giftcards.money import format_money, is_currency, minor_digits

# ISO 4217, list one, by minor digits: what is legal tender somewhere on 2026-11-29.
ISO = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    2: """
        AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP
        CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES
        KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK
        NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS
        TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD XCG YER ZAR ZMW ZWG""",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
CURRENCIES = {code: digits for digits, codes in ISO.items() for code in codes.split()}
# What was replaced, by what: HRK, BGN, LTL by the euro, ANG by XCG, SLL by SLE, ZWL by ZWG, and so on.
WITHDRAWN = "ANG AYM BGN BYR CUC DEM EEK FRF GHC HRK LTL LVL MRO MZM ROL SKK SLL STD TRL VEB VEF XEU ZMK ZWD ZWL"
# Funds, units of account, metals, testing, and a second code for the bolivar.
NO_TENDER = "BOV CHE CHW CLF COU MXV USN UYI UYW XAD XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX VED"


@pytest.mark.parametrize("code", CURRENCIES)
def test_every_currency_of_iso_4217_has_one_form(code: str) -> None:
    assert is_currency(code)
    digits = CURRENCIES[code]
    assert minor_digits(code) == digits
    decimals = "0" * digits
    english, german = format_money(25 * 10**digits, code), format_money(25 * 10**digits, code, "de")
    number = "25" + (decimals and f".{decimals}")
    # A symbol that ends in a sign stands beside the number, any other has a space.
    assert re.fullmatch(rf"([A-Z]{{0,3}}[$€£¥₩₪₫₱₹]|[A-Za-z .]*[A-Za-z.] ){re.escape(number)}", english), english
    number = number.replace(".", ",")
    assert re.fullmatch(rf"{re.escape(number)} ([A-Z]{{0,3}}[$€£¥₩₪₫₱₹฿]|[A-Za-z .]*[A-Za-z.])", german), german


@pytest.mark.parametrize("code", [*WITHDRAWN.split(), *NO_TENDER.split()])
def test_what_is_no_legal_tender_is_no_currency(code: str) -> None:
    assert not is_currency(code)


@pytest.mark.parametrize("code", ["usd", "", "US", "USDX", "ABC", " USD", "U\0D"])
def test_what_is_no_code_is_no_currency(code: str) -> None:
    assert not is_currency(code)


@pytest.mark.parametrize(
    ("amount", "currency", "locale", "shown"),
    [
        (2500, "USD", "en_US", "$25.00"),
        (5, "USD", "en_US", "$0.05"),
        (-2500, "USD", "en_US", "-$25.00"),
        (123_456_789, "EUR", "en_US", "€1,234,567.89"),
        (2500, "JPY", "en_US", "¥2,500"),
        (2500, "KWD", "en_US", "KWD 2.500"),
        (2500, "CHF", "en_US", "CHF 25.00"),
        (100_000, "HUF", "en_US", "HUF 1,000.00"),
        (2500, "XCG", "en_US", "Cg. 25.00"),
        (2500, "XOF", "en_US", "F CFA 2,500"),
        (2500, "USD", "en_GB", "US$25.00"),
        (123_456_789, "USD", "de", "1.234.567,89 $"),
        (2500, "JPY", "de", "2.500 ¥"),
        (2500, "EUR", "de_AT", "€ 25,00"),
        (2500, "CHF", "de_CH", "CHF 25.00"),
        (123_456_789, "CHF", "de_CH", "CHF 1’234’567.89"),
        (123_456_789, "INR", "hi_IN", "₹12,34,567.89"),
        (123_456_789, "EUR", "fr", "1 234 567,89 €"),
    ],
)
def test_an_amount_is_shown_as_its_locale_does(amount: int, currency: str, locale: str, shown: str) -> None:
    assert format_money(amount, currency, locale).replace("'", "’") == shown
