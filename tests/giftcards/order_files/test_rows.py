"""A row becomes an order, or is rejected by its line and field."""

import pytest

from tests.support.order_files import GOOD, HEADER, line, notes, problem, read


def test_a_row_becomes_an_order() -> None:
    (row,) = read(HEADER + line(message="Happy birthday!", deliver_at="2026-12-24T18:00:00Z"))
    assert (row.line, row.correlation_id, row.tenant_id, row.problem) == (2, "order-1", None, None)
    assert row.order is not None
    assert row.order.model_dump(mode="json", exclude_none=True) == {
        "customer": {
            "external_id": "CUST-1520",
            "given_name": "Kate",
            "family_name": "Rodgers",
            "email": "kate@example.com",
        },
        "amount": {"amount": 2500, "currency": "USD"},
        "message": "Happy birthday!",
        "deliver_at": "2026-12-24T18:00:00Z",
    }


def test_empty_cells_are_values_that_are_not_there() -> None:
    (row,) = read(HEADER + ",,,,kate@example.com,5,USD,,,\n")
    assert (row.correlation_id, row.tenant_id, row.problem) == (None, None, None)
    assert row.order is not None
    customer = row.order.customer
    assert (customer.external_id, customer.given_name, customer.family_name) == (None, "", None)
    assert (row.order.message, row.order.deliver_at) == (None, None)


def test_only_what_an_order_needs_has_to_be_there() -> None:
    (row,) = read("currency,amount,email,given_name\nUSD,5,kate@example.com,Kate\n")
    assert row.order is not None


def test_columns_may_stand_in_any_order() -> None:
    header = ",".join(reversed(list(GOOD)))
    (row,) = read(f"{header}\n{','.join(reversed((GOOD | {'tenant_id': 'shop-7'}).values()))}\n")
    assert (row.correlation_id, row.tenant_id, row.problem) == ("order-1", "shop-7", None)


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        ({"email": "kate.rodgers(at)example.com"}, "email"),
        ({"currency": "usd"}, "currency"),
        ({"amount": "0"}, "amount"),
        ({"deliver_at": "2026-12-24 18:00"}, "deliver_at"),
        ({"given_name": "Ka\0te"}, "given_name"),
        ({"message": "\x1b[31m"}, "message"),
        ({"correlation_id": "a\x07b"}, "correlation_id"),
        ({"external_id": "x" * 201}, "external_id"),
        ({"tenant_id": "x" * 201}, "tenant_id"),
    ],
)
def test_a_problem_names_the_field_and_repeats_nothing(cells: dict[str, str], field: str) -> None:
    found = problem(**cells) or ""
    assert found.startswith(f"{field} ")
    assert next(iter(cells.values())) not in found.removeprefix(field) or field == "amount"


def test_a_problem_names_every_field_at_fault() -> None:
    assert problem(email="kate", currency="usd") == (
        "email is not a valid e-mail address; currency is not the upper-case ISO 4217 code of a currency in use"
    )


def test_a_bad_row_does_not_stop_the_rest() -> None:
    rows = read(HEADER + line() + line(email="kate") + "too,few\n" + line().strip() + ",one more\n" + line())
    assert [(row.line, row.order is not None) for row in rows] == [
        (2, True),
        (3, False),
        (4, False),
        (5, False),
        (6, True),
    ]
    assert rows[2].problem == "the row has 2 cells, but the header has 10"
    assert rows[3].problem == "the row has 11 cells, but the header has 10"


def test_empty_cells_at_the_end_are_no_cells() -> None:
    (row,) = read(HEADER + line().strip() + ",, ,\n")
    assert row.problem is None


def test_blank_lines_are_skipped_and_counted() -> None:
    rows = read("\n" + HEADER + "\n  \n" + line() + ",,,,,,,,,\n\r\n" + line())
    assert [(row.line, row.problem) for row in rows] == [(5, None), (8, None)]


def test_a_quoted_cell_may_have_lines_and_its_row_is_named_by_the_first() -> None:
    rows = read(HEADER + line(message='one\ntwo, "three"\n') + line())
    assert [(row.line, row.problem) for row in rows] == [(2, None), (5, None)]
    assert rows[0].order is not None
    assert rows[0].order.message == 'one\ntwo, "three"\n'


@pytest.mark.parametrize("after", [line() * 3, line() + line(message="Hello, you") + line(), line() * 300])
def test_a_quotation_mark_that_does_not_close_costs_its_own_row_only(after: str) -> None:
    rows = read(HEADER + 'o,c,"Kate,Rodgers,kate@example.com,25.00,USD,,,\n' + after)
    assert [row.line for row in rows if row.problem] == [2]
    assert len(rows) == 1 + after.count("\n")


def test_a_huge_cell_costs_its_own_row_only() -> None:
    rows = read(HEADER + line(message="x" * 200_000) + line())
    assert [row.order is not None for row in rows] == [False, True]


def test_a_row_in_quotation_marks_as_a_whole_is_explained() -> None:
    (row,) = read(HEADER + '"o,c,Kate,Rodgers,kate@example.com,25.00,USD,,,"\n')
    assert row.problem == "the row is in quotation marks as a whole, so it is one cell"


def test_the_header_again_and_a_row_of_totals_are_skipped() -> None:
    total = "Total,,,,,50.00,,,,\n"
    rows = read(HEADER + line() + HEADER.upper() + line() + total)
    assert [row.skipped for row in rows] == [None, "repeats the header", None, "is a row of totals"]


def test_another_header_among_the_rows_is_refused() -> None:
    other = "currency,amount,email,given_name,,,,,,\n"
    with pytest.raises(ValueError, match="line 3 is another header"):
        read(HEADER + line() + other + line())


def test_columns_that_are_not_read_are_named() -> None:
    assert notes("email,given_name,amount,currency,VIP,,\n") == (
        "ignored columns: VIP",
        "ignored columns without a name: 2",
    )
    assert notes("email,given_name,amount,currency\n") == ()


def test_of_many_columns_that_are_not_read_some_are_named() -> None:
    (note,) = notes("email,given_name,amount,currency," + ",".join(f"x{n}" for n in range(60)) + "\n")
    assert note.startswith("ignored columns: x0, x1, ")
    assert note.endswith(", x9 and 50 more")
