"""Files that are no CSV, recognized by how they begin."""

import io
import zipfile

_SAVE = "open it there and save it as CSV UTF-8"
_TEXT = b" \t\r\n\xef\xbb\xbf"
# How a file begins → the end of a sentence that begins with "the file".
_BEGINNINGS = (
    (b"\xd0\xcf\x11\xe0", f"is an old Excel workbook (.xls): {_SAVE}"),
    (b"%PDF", "is a PDF: export the orders as CSV"),
    (b"\x1f\x8b", "is compressed with gzip: unpack it first"),
    (b"BZh", "is compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz: unpack it first"),
    (b"7z\xbc\xaf", "is a 7-Zip archive: unpack it first"),
    (b"Rar!", "is a RAR archive: unpack it first"),
    (b"SQLite format 3\0", "is an SQLite database: export the orders as CSV"),
    (b"\x89PNG", "is an image: export the orders as CSV"),
    (b"\xff\xd8\xff", "is an image: export the orders as CSV"),
    (b"PAR1", "is a Parquet file: export it as CSV"),
    (b"{\\rtf", f"is a text document (.rtf): {_SAVE}"),
)
# The same for text, after blanks and in any case.
_TEXT_BEGINNINGS = (
    (b"<?xml", "is XML: export the orders as CSV"),
    (b"<!doctype", f"is a web page, whatever its name: {_SAVE}"),
    (b"<html", f"is a web page, whatever its name: {_SAVE}"),
    (b"<table", f"is a web page, whatever its name: {_SAVE}"),
    (b"{", "is JSON: send orders as JSON to POST /api/v1/giftcards, or export them as CSV"),
    (b"[", "is JSON: send orders as JSON to POST /api/v1/giftcards, or export them as CSV"),
)


def recognize(data: bytes) -> str | None:
    """Return what a file is and what to do instead, as the end of a sentence; None: it may be CSV."""
    if data.startswith(b"PK\x03\x04"):
        return _of_zip(data)
    for beginning, what in _BEGINNINGS:
        if data.startswith(beginning):
            return what
    text = data[:200].lstrip(_TEXT).lower()
    return next((what for beginning, what in _TEXT_BEGINNINGS if text.startswith(beginning)), None)


def _of_zip(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return f"is an Excel workbook (.xlsx): {_SAVE}"
    if any(name.startswith("Index/") or name.endswith(".iwa") for name in names):
        return f"is a Numbers spreadsheet: {_SAVE}"
    if "content.xml" in names:
        return f"is an OpenDocument spreadsheet (.ods): {_SAVE}"
    if any(name.startswith("word/") for name in names):
        return f"is a text document (.docx): {_SAVE}"
    return "is a zip archive: unpack it, and import the CSV file in it"
