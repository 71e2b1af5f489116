"""Personal codes: every row of the table in cases.json, and what must hold for any name."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.giftcards.personal_codes import candidates
from tests.support.cases import CASES as ALL_CASES

CASES = ALL_CASES["personal_code"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['given_name']}-{case['external_id']}")
def test_the_first_candidate_is_the_tables(case: dict[str, Any]) -> None:
    pattern = case["first_candidate"].replace(" + 4 random digits", "[0-9]{4}")
    first = {_first(case["given_name"], case["external_id"], seed=seed) for seed in range(20)}
    assert all(re.fullmatch(pattern, code) for code in first)
    assert (len(first) > 1) == (pattern != case["first_candidate"])


def _first(given_name: str, external_id: str | None, *, seed: int) -> str:
    return candidates(given_name, external_id, attempt=1, rng=random.Random(seed))[0]


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_candidates_are_different_codes(attempt: int) -> None:
    for seed in range(200):
        codes = candidates("Kate", "1520", attempt=attempt, rng=random.Random(seed), count=50)
        assert len(codes) == len(set(codes)) == 50


def test_only_the_first_attempt_uses_the_external_id() -> None:
    assert candidates("Kate", "1520", attempt=1, rng=random.Random(1))[0] == "KATE1520"
    assert candidates("Kate", "1520", attempt=2, rng=random.Random(1))[0] != "KATE1520"


def test_a_random_draw_of_the_external_ids_digits_is_not_offered_twice() -> None:
    codes = candidates("Kate", "1520", attempt=1, rng=random.Random(1), count=10_000)
    assert codes.count("KATE1520") == 1
    assert len(codes) == len(set(codes)) == 10_000


@pytest.mark.parametrize(
    ("given_name", "name"),
    [("प्रिया", "PRIYA"), ("3Jane", "3JANE"), ("... Ann", "ANN"), ("👩‍🚀Zoë", "ZOE"), ("١٢", "12"), ("-", "CUST")],
)
def test_a_name_in_any_script_becomes_ascii(given_name: str, name: str) -> None:
    assert _first(given_name, "1", seed=1) == f"{name}0001"


@settings(deadline=None)  # the first name of a script loads its table
@given(st.text(), st.none() | st.text(), st.integers(1, 3))
def test_a_candidate_has_the_shape_of_a_code_whatever_the_name(
    given_name: str, external_id: str | None, attempt: int
) -> None:
    codes = candidates(given_name, external_id, attempt=attempt, rng=random.Random(1))
    assert len(set(codes)) == 5
    assert all(re.fullmatch(r"[A-Z0-9]{1,10}[0-9]{4}", code) for code in codes)
