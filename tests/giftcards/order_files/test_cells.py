"""What spreadsheets and programs do to cells, in each column: accepted where it is clear, else refused."""

import pytest

from lib.giftcards.order_files.amounts import minor_units
from tests.support.order_files import COLUMNS, GOOD, HEADER, line, problem, read

IDS = ("correlation_id", "external_id", "tenant_id")

EVERYWHERE = {
    "#REF!": "is an error of a spreadsheet",
    "#N/A": "is an error of a spreadsheet",
    "#NAME?": "is an error of a spreadsheet",
    "#VALUE!": "is an error of a spreadsheet",
    "#DIV/0!": "is an error of a spreadsheet",
    "#NV": "is an error of a spreadsheet",
    "#BEZUG!": "is an error of a spreadsheet",
    "Err:502": "is an error of a spreadsheet",
    "########": "is ###",
    "TRUE": "is TRUE or FALSE",
    "FALSE": "is TRUE or FALSE",
    "WAHR": "is TRUE or FALSE",
    "nan": "is a program's word for no value",
    "NaN": "is a program's word for no value",
    "None": "is a program's word for no value",
    "NULL": "is a program's word for no value",
    "<NA>": "is a program's word for no value",
    "=1+1": "is a formula",
    "=A1": "is a formula",
    '=HYPERLINK("http://x","y")': "is a formula",
    '="0001"': "is a formula",
    "@SUM(1)": "is a formula",
    "M\N{REPLACEMENT CHARACTER}ller": "has lost a character",
    "MÃ¼ller": "has letters like",
    "JosÃ©": "has letters like",
    "Ã–zil": "has letters like",
    "Åukasz ÅšwiÄ™ty": "has letters like",
    "Ð˜Ð²Ð°Ð½": "has letters like",
    "â€œHelloâ€\x9d": "has letters like",
    "ðŸŽ‚": "has letters like",
    "M√ºller": "has letters like",
    "a_x000D_b": "has _x000D_",
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("cell", EVERYWHERE)
@pytest.mark.parametrize("around", ["{}", " {}\u00a0"])
def test_damage_is_refused_in_each_column(column: str, cell: str, around: str) -> None:
    found = problem(**{column: around.format(cell)}) or ""
    assert found.startswith(f"{column} {EVERYWHERE[cell]}")
    assert cell not in found or cell in ("#REF!", "TRUE", "FALSE", "NULL", "nan", "_x000D_")


ROUNDED = "was rounded by a spreadsheet"
IN_IDS = {
    "4.56E+12": ROUNDED,
    "4,56E+12": ROUNDED,
    "4E+12": ROUNDED,
    "4.56e12": ROUNDED,
    "-1.5E-05": ROUNDED,
    "4560000000000000": ROUNDED,
    "12345678901234500000": ROUNDED,
    **dict.fromkeys(
        ("1-Mar", "Mar-05", "01. Mrz", "5. Mai", "1-Jan-2026", "12/24/2026", "24.12.2026", "2-août"), "is a date"
    ),
    "123.0": "is a number with a fraction",
    "0.5": "is a number with a fraction",
    "12,5": "is a number with a fraction",
    "1,234": "is a number with separators",
    "1.234.567": "is a number with separators",
    "1 234 567": "is a number with separators",
    "'0001": "begins with an apostrophe",
    "\u20190001": "begins with an apostrophe",
    '"0001"': "is in quotation marks",
    "=x": "begins with =",
    "12\u00a03": "has an invisible character",
    "12\u200b3": "has an invisible character",
}


def test_an_address_behind_an_apostrophe_is_another_address() -> None:
    assert (problem(email="'kate@example.com") or "").startswith("email begins with an apostrophe")
    assert problem(email="k'ate@example.com") is None


@pytest.mark.parametrize("column", IDS)
@pytest.mark.parametrize("cell", IN_IDS)
def test_a_damaged_id_is_refused(column: str, cell: str) -> None:
    found = problem(**{column: cell}) or ""
    assert found.startswith(f"{column} {IN_IDS[cell]}")
    assert cell not in found or cell in ("4.56E+12", "123.0")


@pytest.mark.parametrize("column", IDS)
@pytest.mark.parametrize(
    "cell", ["0001", "+4915112345", "-7", "@kate", "#1001", "123456789012345", "1234567890123456", "100000",
             "2026-11-29", "A-1.5", "10.2.3", "5e", "é-7", "Null", "Nan"]
)  # fmt: skip
def test_an_id_that_is_whole_is_kept(column: str, cell: str) -> None:
    (row,) = read(HEADER + line(**{column: f" {cell}\u00a0"}))
    assert row.problem is None
    assert row.order is not None
    found = {"correlation_id": row.correlation_id, "tenant_id": row.tenant_id}
    assert (found | {"external_id": row.order.customer.external_id})[column] == cell


@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "message"])
def test_blanks_around_a_cell_are_no_part_of_it(column: str) -> None:
    cells = {column: f"\ufeff \u00a0{(GOOD | {'deliver_at': '2030-01-01T00:00:00Z', 'tenant_id': 't'})[column]}\u200b "}
    assert problem(**cells) is None


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("message", "=)"),
        ("message", "@kate, - love +1"),
        ("message", "+1 for you"),
        ("message", "BOA MANHÃ…"),
        ("message", "„ALLES FÜR ZOË“ – viel Spaß…"),
        ("message", "CAFÉ » SOIRÉE"),
        ("message", "No. #1!"),
        ("given_name", "JOÃO"),
        ("given_name", "Åsa"),
        ("given_name", "Null"),
        ("given_name", "Nan"),
        ("given_name", "🎂"),
        ("family_name", "True"),
        ("family_name", "O’Neil-O'Hara"),
    ],
)
def test_what_people_write_is_no_damage(column: str, cell: str) -> None:
    assert problem(**{column: cell}) is None


@pytest.mark.parametrize(
    "cell", ["45000", "46355.58", "29.11.2026 14:00", "11/29/2026", "2026-11-29", "1/2/26 2:00 PM"]
)
def test_a_date_as_spreadsheets_show_it_is_refused(cell: str) -> None:
    assert (problem(deliver_at=cell) or "").startswith("deliver_at is a date as a spreadsheet shows or counts it")


@pytest.mark.parametrize("column", ["given_name", "family_name", "email", "currency", "deliver_at"])
def test_quotation_marks_twice_are_refused(column: str) -> None:
    assert "in quotation marks twice" in (problem(**{column: '"x"'}) or "")


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("25", "USD", 2500),
        ("25.5", "USD", 2550),
        ("123.0", "USD", 12300),
        ("0.01", "USD", 1),
        ("2500", "JPY", 2500),
        ("2.500", "KWD", 2500),
        (" 25.00\u00a0", "USD", 2500),
    ],
)
def test_amounts_are_in_major_units(amount: str, currency: str, minor: int) -> None:
    (row,) = read(HEADER + line(amount=amount, currency=currency))
    assert row.order is not None
    assert row.order.amount.amount == minor


REFUSED = {
    "25,00": "has a comma for the point",
    "$25.00": "has a currency in it",
    "25.00 €": "has a currency in it",
    "US$ 25": "has a currency in it",
    "EUR 25.00": "has a currency in it",
    "2.5E+01": "has an exponent",
    "1,000": "may have separators of thousands",
    "1.000,00": "may have separators of thousands",
    "1 000.00": "may have separators of thousands",
    "1'000": "may have separators of thousands",
    "25.000": "has more decimals than its currency",
    "-5": "is not more than 0",
    "(5.00)": "is not more than 0",
} | dict.fromkeys(["", "abc", "٢٥", "25.", ".5", "9" * 5000, "Infinity"], "is not a plain number")


@pytest.mark.parametrize("cell", REFUSED)
def test_an_amount_that_is_not_clear_is_refused(cell: str) -> None:
    found = problem(amount=cell) or ""
    assert found.startswith(f"amount {REFUSED[cell]}")
    assert cell in ("", "25.") or cell not in found


@pytest.mark.parametrize(("cell", "currency"), [("1.5", "JPY"), ("2500.0", "JPY"), ("1.0001", "KWD")])
def test_an_amount_with_too_many_decimals_is_refused(cell: str, currency: str) -> None:
    assert (problem(amount=cell, currency=currency) or "").startswith("amount has more decimals than its currency")


@pytest.mark.parametrize(("cell", "minor"), [("25,00", 2500), ("25,5", 2550), ("25.00", 2500), ("25", 2500)])
def test_a_decimal_comma_is_read_in_files_with_semicolons(cell: str, minor: int) -> None:
    (row,) = read(HEADER.replace(",", ";") + line(";", amount=cell, currency="EUR"))
    assert row.order is not None
    assert row.order.amount.amount == minor


@pytest.mark.parametrize("cell", ["1.000", "1,000", "1.000,00", "25.000"])
@pytest.mark.parametrize("currency", ["EUR", "KWD", "JPY"])
def test_what_may_be_thousands_is_refused_in_files_with_semicolons(cell: str, currency: str) -> None:
    with pytest.raises(ValueError, match="may have separators of thousands"):
        minor_units(cell, currency, decimal_comma=True)
