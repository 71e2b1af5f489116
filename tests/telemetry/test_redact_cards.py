"""The numbers of cards are covered, however they are written, and other numbers stay."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.giftcards.cards import _luhn_sum as luhn_sum
from lib.giftcards.cards import new_number
from lib.telemetry.redact import clean, covered


def plain(text: str) -> str:
    return clean(text, secrets=[])


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "378282246310005",
        "4222222222222",
        "6304000000000000000",
    ],
)
def test_a_card_number_is_covered_but_for_its_last_four_digits(number: str) -> None:
    digits = re.sub(r"\D", "", number)
    assert plain(f"card {number} declined") == f"card [card …{digits[-4:]}] declined"
    assert plain(f"number={number}") == f"number=[card …{digits[-4:]}]"
    assert plain(number.replace(" ", "\x00")) == f"[card …{digits[-4:]}]"


GAPS = [
    *(" ", "-", ".", "_", "+", "%20", "%2D", "%2d", "%C2%A0", "&nbsp;", "&#160;", "  ", " - ", "\t"),
    *("\u00a0", "\u2007", "\u202f", "\u2009", "\u3000", "\u200b", "\u2060", "\ufeff", "\u00ad"),
    *("\u2010", "\u2011", "\u2013", "\u2014", "\u2212", "\ufe63", "\uff0d", "\u00b7"),
]


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("groups", ["4111 1111 1111 1111", "3782 822463 10005", "9900 0000 0000 0010"])
def test_a_card_number_is_covered_whatever_stands_between_its_digits(groups: str, gap: str) -> None:
    for number in (groups.replace(" ", gap), gap.join(groups.replace(" ", ""))):
        assert plain(f"card {number} declined") == f"card [card …{groups[-4:]}] declined"
        assert covered(f"{number}!") == f"[card …{groups[-4:]}]!"


@pytest.mark.parametrize("number", ["４１１１１１１１１１１１１１１１", "٤١١١ ١١١١ ١١١١ ١١١١"])
def test_a_card_number_in_other_digits_is_covered(number: str) -> None:
    assert plain(number) == "[card …1111]"


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("order 12 4111 1111 1111 1111 2500", "order 12 [card …1111] 2500"),
        ("4111-1111-1111-1111 12/28 123", "[card …1111] 12/28 123"),
        ("4111 1111 1111 1111 5500 0000 0000 0004", "[card …1111] [card …0004]"),
        ("2026.4111111111111111.pdf", "2026.[card …1111].pdf"),
    ],
)
def test_a_card_number_beside_other_numbers_is_covered(said: str, stored: str) -> None:
    assert plain(said) == stored


def test_a_number_of_ours_is_covered() -> None:
    """They pass Luhn's check, so that the check uncovers none of them."""
    for seed in range(200):
        number = new_number(random.Random(seed))
        assert plain(number) == f"[card …{number[-4:]}]"
        mistyped = f"{number[:8]}{(int(number[8]) + 1) % 10}{number[9:]}"
        assert plain(mistyped) == f"[card …{number[-4:]}]"


@pytest.mark.parametrize(
    "number",
    [
        *("2500", "1735732800", "order 123456", "2035-01-01 12:00:00", "+1 555 0100"),
        *("4111111111111112", "1735732800124", "192.168.100.200", "0.1234567890123456", "job 123456789012345678"),
    ],
)
def test_other_numbers_stay(number: str) -> None:
    assert plain(number) == number


@settings(deadline=None)
@given(
    before=st.text(st.characters(categories=["L", "Zs"]), max_size=50),
    digits=st.from_regex(r"[1-9][0-9]{11,17}", fullmatch=True),
    gap=st.sampled_from(["", *GAPS]),
)
def test_a_card_number_is_never_in_what_is_stored(before: str, digits: str, gap: str) -> None:
    number = digits + str(-luhn_sum(digits + "0") % 10)
    grouped = gap.join(number[i : i + 4] for i in range(0, len(number), 4))
    stored = plain(f"{before} {grouped} declined")
    assert number[:-4] not in re.sub(r"\D", "", stored)
    assert f"[card …{number[-4:]}]" in stored
