"""Bytes → text. An encoding is never assumed silently: what was decided is in the notes."""

import codecs
import difflib
import re
from dataclasses import dataclass

from lib.giftcards.order_files import formats

MAX_BYTES = 256 * 1024 * 1024

# The longest first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
# Names for --encoding that people type; Python knows more.
_NAMES = "utf-8 utf-16 utf-16-le utf-16-be cp1252 windows-1252 latin-1 iso-8859-15 cp1250 cp850 mac-roman cp932".split()
_SAMPLE = 4_096
# Not of Western languages: three accented letters in a row, signs or Ÿ within a word. Other encodings look so.
_FOREIGN = re.compile(
    "[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff]{3}|[^\\W\\d_][¡¢£¤¥¦§¨©¬®¯±²³¶¸¹¼½¾¿†‡‰ˆ˜ƒ„‚][^\\W\\d_]|[a-zA-Z]Ÿ[a-z]"
)


class FileError(ValueError):
    """A file that cannot be imported as a whole. The message repeats nothing of its rows."""


@dataclass(frozen=True, slots=True)
class Text:
    """The content of a file. `notes`: what was decided about it, for the operator."""

    content: str
    notes: tuple[str, ...] = ()


def read_text(data: bytes, encoding: str | None = None) -> Text:
    """Decode a file: UTF-8, UTF-16 or UTF-32 by what it holds, else Windows-1252; or as `encoding`.

    Raises:
        FileError: it is empty, too large, no text, or not in that encoding.
    """
    if not data.strip():
        raise FileError("the file is empty")
    if len(data) > MAX_BYTES:
        raise FileError(f"the file is larger than {MAX_BYTES // 1024**2} MiB: split it, with the header in each part")
    what = formats.recognize(data)
    if what:
        raise FileError(f"the file {what}")
    text = _decoded(data, find_encoding(encoding)) if encoding else _recognized(data)
    if text.content.count("\0") > len(text.content) / 100:
        raise FileError("the file holds NUL characters: it is not text, or not in this encoding (--encoding)")
    return text


def find_encoding(name: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        FileError: there is none of that name.
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        found = None
    # Others turn bytes into bytes, or text into text.
    if found is None or not getattr(found, "_is_text_encoding", True) or found.name in _NOT_OF_FILES:
        close = difflib.get_close_matches(name.lower(), _NAMES, n=1)
        hint = f": did you mean {close[0]}?" if close else f", such as {', '.join(_NAMES[:6])}"
        raise FileError(f"there is no encoding of this name{hint}")
    return found.name


_NOT_OF_FILES = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}


def _recognized(data: bytes) -> Text:
    for mark, encoding, title in _MARKS:
        if data.startswith(mark):
            return Text(_decoded(data, encoding).content, (f"read as {title}, by its byte order mark",))
    for first, encoding, title in ((1, "utf-16-le", "UTF-16 LE"), (0, "utf-16-be", "UTF-16 BE")):
        sample = data[first:_SAMPLE:2]
        # The ASCII of UTF-16: each second byte is 0, and the others are not.
        if sample.count(0) > len(sample) * 0.7 and data[1 - first : _SAMPLE : 2].count(0) < len(sample) * 0.1:
            reason = "because each second byte is 0: use --encoding to choose another"
            return Text(_decoded(data, encoding).content, (f"read as {title}, {reason}",))
    try:
        return Text(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return _windows(data, error)


def _windows(data: bytes, error: UnicodeDecodeError) -> Text:
    line = data.count(b"\n", 0, error.start) + 1
    lenient = data.decode("utf-8", errors="replace")
    lost = lenient.count("\N{REPLACEMENT CHARACTER}")
    if sum(character > "\x7f" for character in lenient) - lost > lost:
        raise FileError(f"the file is UTF-8 with other bytes in it, first in line {line}: save it anew, as CSV UTF-8")
    if b"\n" not in data and b"\r" in data:  # as only old programs of the Mac end lines
        reason = "because it is not UTF-8 and has line ends of old Macs: use --encoding to choose another"
        return Text(data.decode("mac-roman"), (f"read as Mac Roman, {reason}",))
    try:
        content = data.decode("cp1252")
    except UnicodeDecodeError:
        raise FileError(
            f"the file is neither UTF-8 (line {line}) nor Windows-1252: choose its encoding with --encoding"
        ) from None
    foreign = _FOREIGN.search(content)
    if foreign:
        line = content.count("\n", 0, foreign.start()) + 1
        raise FileError(
            f"the file is not UTF-8, and as Windows-1252 it has signs within words, first in line {line}: choose "
            "its encoding with --encoding, such as mac-roman, cp1250 or cp1251"
        )
    reason = f"because it is not UTF-8 (line {line}): use --encoding to choose another"
    return Text(content, (f"read as Windows-1252, {reason}",))


def _decoded(data: bytes, encoding: str) -> Text:
    try:
        content = data.decode(encoding)
    except UnicodeError as error:
        at = getattr(error, "start", None)
        where = "" if at is None else f" at byte {at + 1:,}"
        raise FileError(f"the file is not {encoding}{where}: choose another one with --encoding") from None
    return Text(content.removeprefix("\ufeff"))
