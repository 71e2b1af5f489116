"""Orders from CSV: one bad row imports the rest and names its line."""

import io
from pathlib import Path

import pytest

from lib.giftcards.orders_csv import COLUMNS, CsvRow, read_orders

HEADER = ",".join(COLUMNS) + "\n"
GOOD = "order-1,CUST-1520,Kate,Rodgers,kate@example.com,25.00,USD,Happy birthday!,2026-12-24T18:00:00Z\n"


def _read(text: str) -> list[CsvRow]:
    return list(read_orders(io.StringIO(text, newline="")))


def _with(**cells: str) -> str:
    names = dict(zip(COLUMNS, GOOD.strip().split(","), strict=True)) | cells
    return ",".join(names[name] for name in COLUMNS) + "\n"


def _problem(row: str) -> str:
    (read,) = _read(HEADER + row)
    assert (read.line, read.order, read.correlation_id, read.tenant_id) == (2, None, None, None)
    assert read.problem is not None
    return read.problem


def test_a_row_becomes_an_order() -> None:
    (row,) = _read(HEADER + GOOD)
    assert (row.line, row.correlation_id, row.tenant_id, row.problem) == (2, "order-1", None, None)
    assert row.order is not None
    assert row.order.model_dump(mode="json") == {
        "customer": {
            "external_id": "CUST-1520",
            "given_name": "Kate",
            "family_name": "Rodgers",
            "email": "kate@example.com",
        },
        "amount": {"amount": 2500, "currency": "USD"},
        "message": "Happy birthday!",
        "deliver_at": "2026-12-24T18:00:00Z",
        "locale": None,
    }


def test_empty_cells_are_values_that_are_not_there() -> None:
    (row,) = _read(HEADER + ",,,,kate@example.com,5,USD,,\n")
    assert (row.correlation_id, row.problem) == (None, None)
    assert row.order is not None
    customer = row.order.customer
    assert (customer.external_id, customer.given_name, customer.family_name) == (None, "", None)
    assert (row.order.message, row.order.deliver_at) == (None, None)


def test_columns_may_stand_in_any_order_and_a_tenant_may_be_among_them() -> None:
    columns = [*reversed(COLUMNS), "tenant_id"]
    cells = [*reversed(GOOD.strip().split(",")), "shop-7"]
    (row,) = _read(f"{','.join(columns)}\n{','.join(cells)}\n")
    assert (row.correlation_id, row.tenant_id, row.problem) == ("order-1", "shop-7", None)


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [("25", "USD", 2500), ("25.5", "USD", 2550), ("0.01", "USD", 1), ("2500", "JPY", 2500), ("2.500", "KWD", 2500)],
)
def test_amounts_are_in_major_units(amount: str, currency: str, minor: int) -> None:
    (row,) = _read(HEADER + _with(amount=amount, currency=currency))
    assert row.order is not None
    assert row.order.amount.amount == minor


@pytest.mark.parametrize(("amount", "currency"), [("25.000", "USD"), ("1.5", "JPY"), ("1.0001", "KWD")])
def test_an_amount_with_too_many_decimals_is_refused(amount: str, currency: str) -> None:
    assert _problem(_with(amount=amount, currency=currency)).startswith("amount has more decimals than its currency")


@pytest.mark.parametrize("amount", ["", "abc", "-5", "1e3", '"1,000"', "$25", "٢٥", "25.", ".5", "9" * 5000, "NaN"])
def test_an_amount_that_is_no_plain_number_is_refused(amount: str) -> None:
    assert _problem(_with(amount=amount)) == "amount is not a plain number like 25.00"


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        ({"email": "kate.rodgers(at)example.com"}, "email"),
        ({"currency": "usd"}, "currency"),
        ({"amount": "0"}, "amount"),
        ({"deliver_at": "2026-12-24 18:00"}, "deliver_at"),
        ({"given_name": "Ka\0te"}, "given_name"),
        ({"message": "\x1b[31m"}, "message"),
        ({"correlation_id": "a\x07"}, "correlation_id"),
        ({"external_id": "x" * 201}, "external_id"),
    ],
)
def test_a_problem_names_the_field_and_repeats_nothing(cells: dict[str, str], field: str) -> None:
    problem = _problem(_with(**cells))
    assert problem.startswith(f"{field} ")
    assert next(iter(cells.values())) not in problem.removeprefix(field) or field == "amount"


def test_a_problem_names_every_field_at_fault() -> None:
    assert _problem(_with(email="kate", currency="usd")) == (
        "email is not a valid e-mail address; currency is not the upper-case ISO 4217 code of a currency in use"
    )


def test_a_bad_row_does_not_stop_the_rest() -> None:
    rows = _read(HEADER + GOOD + _with(email="kate") + "too,few\n" + GOOD.strip() + ",one more\n" + GOOD)
    assert [(row.line, row.order is not None) for row in rows] == [
        (2, True),
        (3, False),
        (4, False),
        (5, False),
        (6, True),
    ]
    assert rows[2].problem == "the row has 2 cells, but the header has 9"
    assert rows[3].problem == "the row has 10 cells, but the header has 9"


def test_blank_lines_are_skipped_and_counted() -> None:
    rows = _read("\n" + HEADER + "\n  \n" + GOOD + ",,,,,,,,\n\r\n" + GOOD)
    assert [(row.line, row.problem) for row in rows] == [(5, None), (8, None)]


def test_a_quoted_cell_may_have_lines_and_its_row_is_named_by_the_first() -> None:
    rows = _read(HEADER + _with(message='"one\ntwo, ""three""\n"') + GOOD)
    assert [(row.line, row.problem) for row in rows] == [(2, None), (5, None)]
    assert rows[0].order is not None
    assert rows[0].order.message == 'one\ntwo, "three"\n'


@pytest.mark.parametrize("after", [GOOD * 3, GOOD + _with(message='"Hello, you"') + GOOD, GOOD * 300])
def test_a_quotation_mark_that_does_not_close_costs_its_own_row_only(after: str) -> None:
    rows = _read(HEADER + _with(given_name='"Kate') + after)
    assert [row.line for row in rows if row.problem] == [2]
    assert len(rows) == 1 + after.count("\n")


def test_a_huge_cell_costs_its_own_row_only() -> None:
    rows = _read(HEADER + _with(message="x" * 200_000) + GOOD)
    assert [row.order is not None for row in rows] == [False, True]


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_bytes((HEADER + GOOD).replace("\n", "\r\n").encode("utf-8-sig"))
    with path.open(newline="", encoding="utf-8") as file:
        assert [row.problem for row in read_orders(file)] == [None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing: correlation_id"),
        (GOOD, "missing: correlation_id"),
        (HEADER.replace("email", "e-mail"), "missing: email; unknown: 'e-mail'"),
        (HEADER.strip() + ",vip\n", "missing: none; unknown: 'vip'"),
        (HEADER.strip() + ",email\n", "once"),
        ('"' + HEADER, "missing: correlation_id"),
    ],
)
def test_a_wrong_header_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_orders(io.StringIO(text, newline=""))
