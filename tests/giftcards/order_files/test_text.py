"""What is no text is named by its kind; encodings are found out and reported."""

import io
import zipfile

import pytest

from lib.giftcards.order_files.text import FileError, find_encoding
from tests.support.order_files import HEADER, line, notes, read

TEXT = HEADER + line(given_name="Jürgen", family_name="Šebek")


@pytest.mark.parametrize(
    ("encoding", "mark", "note"),
    [
        ("utf-8", b"", None),
        ("utf-8-sig", b"", None),
        ("utf-16", b"", "read as UTF-16, by its byte order mark"),
        ("utf-32", b"", "read as UTF-32, by its byte order mark"),
        ("utf-16-be", b"\xfe\xff", "read as UTF-16, by its byte order mark"),
        ("utf-16-le", b"", "read as UTF-16 LE, because each second byte is 0"),
        ("utf-16-be", b"", "read as UTF-16 BE, because each second byte is 0"),
        ("cp1252", b"", "read as Windows-1252, because it is not UTF-8 (line 2): use --encoding to choose another"),
    ],
)
def test_an_encoding_is_found_out_and_reported(encoding: str, mark: bytes, note: str | None) -> None:
    data = mark + TEXT.encode(encoding)
    (row,) = read(data)
    assert row.order is not None
    assert (row.order.customer.given_name, row.order.customer.family_name) == ("Jürgen", "Šebek")
    found = notes(data)
    assert [one.startswith(note or "?") for one in found] == ([True] if note else [])


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("mac-roman", "Jürgen"), ("cp1250", "Ścieżka"), ("cp1251", "Иван"), ("cp1253", "Γιώργος"), ("cp1255", "שלום"),
     ("big5", "陳大文"), ("shift-jis", "田中太郎"), ("euc-kr", "김민수"), ("gbk", "王小明")],
)  # fmt: skip
def test_another_encoding_is_not_taken_for_windows(encoding: str, name: str) -> None:
    data = (HEADER + line(given_name="Kate") + line(given_name=name)).encode(encoding)
    with pytest.raises(FileError, match=r"line 3.*--encoding"):
        read(data)
    assert [row.order.customer.given_name for row in read(data, encoding=encoding) if row.order] == ["Kate", name]


@pytest.mark.parametrize(
    "name", ["Zoë O’Neil", "Créée Ÿsaÿe", "Anne·Lise", "Acme®", "«Kate»", "ÉÈ", "Núñez", "Façade", "Åse Ærø", "Kate´s"]
)
def test_western_names_are_windows(name: str) -> None:
    (row,) = read((HEADER + line(given_name=name)).encode("cp1252"))
    assert row.order is not None
    assert row.order.customer.given_name == name


def test_line_ends_of_old_macs_mean_their_encoding() -> None:
    data = (HEADER + line(given_name="Zoë", family_name="Müßig")).replace("\n", "\r").encode("mac-roman")
    (row,) = read(data)
    assert row.order is not None
    assert (row.order.customer.given_name, row.order.customer.family_name) == ("Zoë", "Müßig")
    assert notes(data)[0].startswith("read as Mac Roman, because it is not UTF-8 and has line ends of old Macs")


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-16", "cp1250", "Windows-1252", "iso-8859-2"])
def test_an_encoding_can_be_chosen(encoding: str) -> None:
    (row,) = read(HEADER.encode(encoding) + line(given_name="Kate").encode(encoding.replace("utf-16", "utf-16-le")),
                  encoding=encoding)  # fmt: skip
    assert row.order is not None
    assert notes(HEADER.encode(encoding), encoding=encoding) == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("utf9", "did you mean utf-"), ("windows1253x", "did you mean windows-1252"), ("klingon", "such as utf-8"),
     ("base64", "such as"), ("rot13", "such as"), ("idna", "such as"), ("a\0b", "such as"), ("", "such as")],
)  # fmt: skip
def test_an_encoding_that_is_none_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(FileError, match=hint):
        find_encoding(name)


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b" \r\n \n", "is empty"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "Excel workbook (.xlsx)"),
        (zipped("mimetype", "content.xml"), "OpenDocument spreadsheet (.ods)"),
        (zipped("Index/Document.iwa"), "Numbers spreadsheet"),
        (zipped("orders.csv"), "zip archive"),
        (b"PK\x03\x04 torn", "zip archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Excel workbook (.xls)"),
        (b"%PDF-1.7", "is a PDF"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x89PNG\r\n", "image"),
        (b"<html><table>", "web page"),
        (b'<?xml version="1.0"?>', "XML"),
        (b'\xef\xbb\xbf [{"email": 1}]', "JSON"),
        (b"SQLite format 3\0", "SQLite"),
        (
            TEXT.encode()[:-30] + b"\xff\xfe" + TEXT.encode() + TEXT.encode(),
            "is UTF-8 with other bytes in it, first in",
        ),
        (HEADER.encode() + b"\x81\x8d", "neither UTF-8 (line 2) nor Windows-1252"),
        (HEADER.encode() + b"\0" * 50, "NUL"),
        (TEXT.encode("utf-16")[:-1], "is not utf-16"),
        (b"\xff\xfe", "has no row"),
    ],
)
def test_what_is_no_csv_is_refused_with_its_kind(data: bytes, what: str) -> None:
    with pytest.raises(FileError) as refused:
        read(data)
    assert what in str(refused.value)
    assert "Jürgen" not in str(refused.value)


def test_a_file_in_another_encoding_than_the_chosen_one_is_refused() -> None:
    with pytest.raises(FileError, match="is not utf-8 at byte"):
        read(TEXT.encode("cp1252"), encoding="utf-8")


def test_a_header_alone_is_a_file_without_orders() -> None:
    assert read(HEADER) == []
