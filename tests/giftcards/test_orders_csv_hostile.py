"""Whatever a file holds, each row is an order or a problem, and a problem repeats nothing of what was in it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.giftcards.orders_csv import COLUMNS, read_orders

HEADER = ",".join(COLUMNS) + "\n"
GOOD = "order-1,CUST-1520,Kate,Rodgers,kate@example.com,25.00,USD,,\n"

cells = st.text(max_size=30) | st.sampled_from(
    [
        "kate@example.com",
        "25.00",
        "1e9",
        "-1",
        "NaN",
        "USD",
        "JPY",
        "2030-01-01T00:00:00Z",
        '"',
        "\x00",
        "\ud800",
        "=1+1",
    ]
)
rows = st.lists(cells, max_size=12).map(",".join)
many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
pytestmark = pytest.mark.slow


@many
@given(st.lists(rows, max_size=6))
def test_any_rows_are_orders_or_problems(found: list[str]) -> None:
    for row in read_orders([HEADER, *(f"{line}\n" for line in found)]):
        assert (row.order is None) != (row.problem is None)
        assert row.order is not None or row.line >= 2


@many
@given(st.lists(st.text(max_size=60), max_size=4))
def test_any_text_is_rows_or_one_refusal_of_the_header(lines: list[str]) -> None:
    try:
        found = list(read_orders(lines))
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = "no refusal"
        assert all((row.order is None) != (row.problem is None) for row in found)
    assert "\n" not in refusal.strip()
    assert refusal


@many
@given(secret=st.text(st.characters(categories=["Ll"], max_codepoint=0x7A), min_size=9, max_size=30))
def test_a_problem_repeats_nothing_of_the_row(secret: str) -> None:
    (row,) = read_orders([HEADER, f"order-1,,Kate,,{secret}@@{secret},25.00,USD,,\n"])
    assert row.problem is not None
    assert secret not in row.problem


@many
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"'), max_size=80))
def test_a_good_row_is_an_order_whatever_stands_before_it(bad: str) -> None:
    *_, last = read_orders([HEADER, f"{bad}\n", GOOD])
    assert last.order is not None
