"""Delimiter and header of a file."""

import pytest

from tests.support.order_files import GOOD, HEADER, line, read


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("sep", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_delimiter_and_line_end_is_read(delimiter: str, sep: bool, end: str) -> None:
    text = (
        (f"sep={delimiter}\n" if sep else "") + HEADER.replace(",", delimiter) + line(delimiter, message="a, b; c") * 2
    )
    rows = read(text.replace("\n", end))
    assert [(row.line, row.problem) for row in rows] == [
        (3 if sep else 2, None),
        (4 if sep else 3, None),
    ]
    assert [row.problem for row in rows] == [None, None]
    assert rows[0].order is not None
    assert rows[0].order.message == "a, b; c"


def test_a_separator_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="separator that is not supported"):
        read("sep=:\n" + HEADER + line())


@pytest.mark.parametrize(
    "change",
    [str.upper, str.title, lambda name: name.replace("_", " "), lambda name: name.replace("_", "-"), str.strip],
)
@pytest.mark.parametrize("around", ["{}", " {} ", '"{}"', "{}\u00a0"])
def test_names_are_read_in_any_form(change: object, around: str) -> None:
    assert callable(change)
    header = ",".join(around.format(change(name)) for name in GOOD)
    (row,) = read(f"{header}\n{line()}")
    assert row.problem is None
    assert row.correlation_id == "order-1"


@pytest.mark.parametrize("name", list(GOOD))
def test_a_misspelled_column_is_refused_with_its_name(name: str) -> None:
    wrong = name[:2] + name[3:]
    with pytest.raises(ValueError, match=rf"'{wrong}': did you mean {name}\?"):
        read(HEADER.replace(name, wrong) + line())


@pytest.mark.parametrize("name", ["given_name", "email", "amount", "currency"])
def test_a_required_column_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"does not name {name}:"):
        read(HEADER.replace(name, "x") + line())


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="names email more than once"):
        read(HEADER.strip() + ",E-Mail\n")


@pytest.mark.parametrize("content", [line() * 2, "Secret;Person\n", "secret.person@example.com\n"])
def test_a_file_without_header_is_explained_without_its_data(content: str) -> None:
    with pytest.raises(ValueError, match="the first line is no header") as refused:
        read(content)
    found = str(refused.value).casefold()
    assert "kate" not in found
    assert "secret" not in found


def test_a_file_of_lines_in_quotation_marks_is_explained() -> None:
    with pytest.raises(ValueError, match="each line is one cell: it is in quotation marks"):
        read(f'"{HEADER.strip()}"\n')
    with pytest.raises(ValueError, match="the line sep= names another delimiter than the rows have"):
        read("sep=;\n" + HEADER + line())
