"""What spreadsheets and programs do to cells: damage that is found is named, and never guessed away."""

import re

# Blanks and marks at the ends of a cell, some of which no editor shows.
_EDGES = re.compile(r"^[\s\u200b-\u200f\u202a-\u202e\u2060\ufeff]+|[\s\u200b-\u200f\u202a-\u202e\u2060\ufeff]+$")
_INVISIBLE = re.compile(r"[\u00a0\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")

# The words of Excel, LibreOffice and Google Sheets, in the languages of many operators.
_ERRORS = (
    "#REF! #N/A #NAME? #VALUE! #DIV/0! #NUM! #NULL! #ERROR! #SPILL! #CALC! #FIELD! #BLOCKED! #CONNECT! #UNKNOWN! "
    "#BUSY! #GETTING_DATA #BEZUG! #NV #WERT! #ZAHL! #ÜBERLAUF! #LEER! #NOM? #VALEUR! #NOMBRE! #NUL! #¡REF! #¿NOMBRE? "
    "#¡VALOR! #¡NUM! #¡DIV/0! #RIF! #NOME? #VALORE! #N/D #VERW! #NAAM? #WAARDE! #GETAL! #N/B #VALOR! #ADR! "
    "#NAZWA? #ARG!"
).split()
_ERROR = re.compile(rf"(?:{'|'.join(map(re.escape, _ERRORS))}|Err:\d{{3}})", re.IGNORECASE)
_TRUTHS = "TRUE FALSE WAHR FALSCH VRAI FAUX VERDADERO FALSO VERO WAAR ONWAAR".split()
# How programs write that there is no value. `Null` and `Nan` are people's names.
_NOTHINGS = ("nan", "NaN", "NAN", "null", "NULL", "none", "None", "NONE", "<NA>", "NaT", "\\N", "undefined", "(null)")
# `="0001"`, `=A1`, `=SUM(…`, `=1+1`, `@SUM(…`; not `=)`, and not `@kate`.
_FORMULA = re.compile(
    r"""[=\uff1d]\s*(?:["'+\-(\d{]|\$?[A-Za-z]{1,3}\$?\d|[A-Za-z_.]+[(!]|.*\|)|[@+\-\uff20]\s*[A-Za-z_.]+\("""
)
# UTF-8 that was read as Windows-1252 (or as Mac Roman), and encoded again.
_AFTER = "\u0080-\u00bf\u0160\u0161\u0178\u017d\u017e\u0152\u0153\u0192\u02c6\u02dc\u2020-\u2022\u2030\u20ac\u2122"
_TYPOGRAPHIC = "\u2013\u2014\u2018-\u201e\u2026\u2039\u203a"
_MOJIBAKE = re.compile(
    rf"[ÃÂ][{_AFTER}]|(?<![^\W\d_])[ÃÂ][{_TYPOGRAPHIC}](?=[^\W\d_])|[ÄÅÐÑÎÏØÙ][{_AFTER}]"
    rf"|[ÐÑ][{_TYPOGRAPHIC}]|â€|ðŸ|[âã][{_AFTER}{_TYPOGRAPHIC}]{{2}}|ï»¿|√[º§∂©®ßÉ†∏¥±¢]|‚Ä[ôúùìîò¶]"
)
# Most cells: no check but that of the words can find anything in them.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .@-]*")
_WORDS = {*_TRUTHS, *_NOTHINGS}
_EXCEL_BREAK = re.compile(r"_x000[dD]_")

_EXPONENT = re.compile(r"[+-]?\d+(?:[.,]\d*)?[eE][+-]?\d+")
_FRACTION = re.compile(r"[+-]?\d*[.,]\d+|[+-]?\d+[.,]")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([.,\s'’])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
# As spreadsheets show what they took for a date: `MARCH1` and `MAR1` are both 1-Mar then, and two people one.
_MONTHS = (
    "jan ene gen feb fév mar mär mrz apr avr abr may mai mag maj mei jun juin giu jul juil lug aug août ago sep sept "
    "set oct okt ott nov dec dez déc dic"
).split()
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_DATE = re.compile(
    rf"\d{{1,2}}[-. ]{{1,2}}{_MONTH}\.?(?:[- ]\d{{2,4}})?|{_MONTH}\.?[- ]\d{{2,4}}|\d{{1,2}}([./])\d{{1,2}}\1\d{{4}}",
    re.IGNORECASE,
)
_SIGNIFICANT = 15
# Formulas, also in full-width forms; zeros at the left; numbers of which spreadsheets do not show each digit.
_CHANGED = re.compile(r"[\s']*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|0[0-9]|[0-9]{12})")

_TEXT_CHECKS = (
    (_ERROR.fullmatch, "is an error of a spreadsheet, such as #REF!"),
    (re.compile("#{2,}").fullmatch, "is ###: the column was too narrow when the spreadsheet was saved"),
    (_TRUTHS.__contains__, "is TRUE or FALSE: a spreadsheet has replaced the value"),
    (_NOTHINGS.__contains__, "is a program's word for no value, such as nan or NULL: leave the cell empty"),
    (_FORMULA.match, "is a formula of a spreadsheet: give the value alone"),
    (lambda cell: "\ufffd" in cell, "has lost a character: the file was saved in another encoding before (U+FFFD)"),
    (_MOJIBAKE.search, "has letters like Ã¼ for ü: the file was read in a wrong encoding and saved again"),
    (_EXCEL_BREAK.search, "has _x000D_ for a line break: a program has damaged it"),
)
_ID_CHECKS = (
    (_EXPONENT.fullmatch, "was rounded by a spreadsheet (like 4.56E+12): restore the original id, and format as text"),
    (_GROUPED.fullmatch, "is a number with separators: restore the original id, and format the column as text"),
    (_FRACTION.fullmatch, "is a number with a fraction (like 123.0): restore the original id, and format as text"),
    (
        lambda cell: cell.isdigit() and len(cell.rstrip("0")) <= _SIGNIFICANT < len(cell),
        "was rounded by a spreadsheet, which keeps 15 digits: restore the original id, and format the column as text",
    ),
    (
        _DATE.fullmatch,
        "is a date, into which spreadsheets turn ids like MAR1: restore the original id, and format as text",
    ),
    (lambda cell: cell[0] in "'’‘`´", "begins with an apostrophe, by which spreadsheets mark text: remove it"),
    (lambda cell: cell[0] == cell[-1] == '"', "is in quotation marks: give the id alone"),
    (lambda cell: cell[0] in "=\uff1d", "begins with = like a formula: give the id alone"),
    (_INVISIBLE.search, "has an invisible character in it: type it anew"),
)


def trimmed(cell: str) -> str:
    """Return a cell without blanks and invisible marks at its ends."""
    return cell.strip() if cell.isascii() else _EDGES.sub("", cell)


def damage_of_text(cell: str) -> str | None:
    """Return what a spreadsheet or program has done to a cell, as the end of a sentence; None: nothing."""
    text = trimmed(cell)
    if not text or (_PLAIN.fullmatch(text) and text not in _WORDS):
        return None
    return next((reason for check, reason in _TEXT_CHECKS if check(text)), None)


def damage_of_id(cell: str) -> str | None:
    """Return the same for an id, which also numbers can damage."""
    text = trimmed(cell)
    if not text:
        return None
    return next((reason for check, reason in _ID_CHECKS if check(text)), None)


def damage_of_address(cell: str) -> str | None:
    """Return the same for a mail address: one like 'ann@example.com is valid, but another than Ann's."""
    if trimmed(cell)[:1] == "'":
        return "begins with an apostrophe, by which spreadsheets mark text: remove it"
    return damage_of_text(cell)


def escaped(cell: str) -> str:
    """Return a cell that a spreadsheet takes for text."""
    return f"'{cell}" if _CHANGED.match(cell) else cell


def unescaped(cell: str) -> str:
    """Return the cell that was `escaped`."""
    return cell[1:] if cell.startswith("'") and _CHANGED.match(cell[1:]) else cell
