"""What goes out and comes back is the same on every wire: values, nulls, defaults, and what cannot be carried."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from lib.errors import Misconfigured, Refused
from lib.store.postgres import _parsed
from lib.store.statements import encode
from lib.store.wire import Wire


@pytest.fixture
def wire(lasting_wire: Wire) -> Wire:
    return lasting_wire


TEXTS = [
    "",
    "Łukasz Æ ß 日本語 🎁 𝄞",
    "e\u0301 \u202eright to left \u2028 line",
    "\t\n\r\x01\x1f\x7f",
    """'";--\\ %s {} $1 :name""",
    "null",
    "x" * 100_000,
]
IDS = [0, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 0.1, 1 / 3, 1e-308, 1.7976931348623157e308, 5, -2.5]


@pytest.mark.parametrize("text", TEXTS[1:], ids=range(1, len(TEXTS)))
def test_text_comes_back_as_it_went(wire: Wire, text: str) -> None:
    assert wire.call("wire_text", value=text) == text
    assert wire.call("wire_texts", value=(text, "")) == [text, ""]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_json_comes_back_as_it_went(wire: Wire, text: str) -> None:
    value = {"text": text, "key " + text[:20]: [text], "none": None, "flags": [True, False], "deep": [[[{}]]]}
    assert wire.call("wire_json", value=value) == value


@pytest.mark.parametrize("number", IDS)
def test_an_id_is_never_rounded(wire: Wire, number: int) -> None:
    assert wire.call("wire_big", value=number) == number
    assert wire.call("wire_json", value=[number]) == [number]


@pytest.mark.parametrize("number", FLOATS)
def test_a_float_is_never_rounded(wire: Wire, number: float) -> None:
    assert wire.call("wire_float", value=number) == number
    assert wire.call("wire_floats", value=(number, number)) == [number, number]


@pytest.mark.parametrize(("number", "named"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_a_float_that_is_not_finite_is_named(wire: Wire, number: float, named: str) -> None:
    assert wire.call("wire_float", value=number) == named
    assert wire.call("wire_floats", value=(1.5, number)) == [1.5, named]


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_stays_a_flag(wire: Wire, flag: bool) -> None:
    assert wire.call("wire_flag", value=flag) is flag


def test_a_number_takes_the_type_of_the_argument(wire: Wire) -> None:
    assert wire.call("wire_float", value=2**53 + 1) == float(2**53)
    assert wire.call("wire_text", value=7) == "7"


def test_a_time_is_text_of_rfc_3339(wire: Wire) -> None:
    answer = wire.call("wire_time", value=datetime(2026, 11, 28, 3, 4, 5, 678901, tzinfo=UTC))
    assert answer == "2026-11-28T03:04:05.678901+00:00"


@pytest.mark.parametrize("function", ["wire_json", "wire_text", "wire_integer"])
def test_none_is_null_and_not_the_default(wire: Wire, function: str) -> None:
    assert wire.call(function, value=None) is None
    assert wire.call(function) == {"wire_integer": 7}.get(function, "default")


RAW = [
    '{"a": 1, "b": 2, "a": 3}',
    r'["\ud834\udd1e", "\u00e9"]',
    "[0, -0, -0.0, 1E5, 0.1e1, 1e-400, 1e400, -1e400]",
    "[12345678901234567890123456789, -9007199254740993, 0.30000000000000004, 1.7976931348623157e308]",
    "[" * 500 + "]" * 500,
    '{"deep": ' * 300 + "1" + "}" * 300,
    ' [ 1 , "a/\\/" ] ',
]


@pytest.mark.parametrize("text", RAW, ids=range(len(RAW)))
def test_a_reply_is_what_json_makes_of_it(wire: Wire, text: str) -> None:
    """Also where a faster parser refuses it."""
    assert repr(wire.call("wire_raw", value=text)) == repr(json.loads(text))


@pytest.mark.parametrize("value", [{1: "a", None: [True], False: 0}, {"a": (1, (2,))}, [1e16, 1e-7, -0.0]], ids=str)
def test_json_goes_out_as_json_writes_it(wire: Wire, value: Any) -> None:
    assert wire.call("wire_json", value=value) == json.loads(json.dumps(value))


@pytest.mark.parametrize("texts", [("NULL", "null", None), ('"', "\\", "{},", " a "), ("",), ("{", "é\n")], ids=str)
def test_an_array_quotes_what_it_has_to(wire: Wire, texts: tuple[str | None, ...]) -> None:
    assert wire.call("wire_texts", value=texts) == list(texts)


@pytest.mark.parametrize(
    "value", [{"at": datetime(2035, 1, 1, tzinfo=UTC)}, [{1, 2}], {"raw": b"x"}, object], ids=range(4)
)
def test_over_psycopg_what_json_does_not_know_is_no_argument(value: Any) -> None:
    with pytest.raises(TypeError):
        encode([value])


def test_half_a_surrogate_pair_in_a_reply_is_read_as_json_reads_it() -> None:
    assert _parsed(rb'["\ud800", "\udc00x"]') == ["\ud800", "\udc00x"]


def test_void_is_none(wire: Wire) -> None:
    assert wire.call("wire_void") is None


@pytest.mark.parametrize("value", [{}, [], {"a": []}, [[], {}]], ids=str)
def test_what_is_empty_stays_what_it_is(wire: Wire, value: Any) -> None:
    assert wire.call("wire_json", value=value) == value


def test_an_empty_array_is_an_array(wire: Wire) -> None:
    assert wire.call("wire_texts", value=()) == []


@pytest.mark.parametrize("count", [0, 1, 1_500])
def test_no_list_is_cut(wire: Wire, count: int) -> None:
    """PostgREST cuts sets at 1,000 rows; ours are one value."""
    answer = wire.call("wire_list", count=count)
    assert [item["id"] for item in answer] == list(range(1, count + 1))


CANNOT = {
    "NUL as text": ("wire_text", "a\0b", "22P05"),
    "NUL in an array": ("wire_texts", ("a\0b",), "22P05"),
    "NUL in JSON": ("wire_json", {"a": "b\0"}, "22P05"),
    "half a surrogate pair": ("wire_text", "a\ud800", "22P02"),
    "half a surrogate pair in an array": ("wire_texts", ("a\udc00",), "22P02"),
    "half a surrogate pair in JSON": ("wire_json", ["a\ud800"], "22P02"),
    "NaN in JSON": ("wire_json", {"a": math.nan}, "22P02"),
    "infinity in JSON": ("wire_json", [math.inf], "22P02"),
    "an id of more than 63 bits": ("wire_big", 2**63, "22003"),
    "an integer of more than 31 bits": ("wire_integer", 2**31, "22003"),
    "a fraction for an integer": ("wire_integer", 1.5, "22P02"),
    "text for an integer": ("wire_integer", "seven", "22P02"),
    "a time that is none": ("wire_time", "yesterday noon", "22007"),
    "a flag for a number": ("wire_integer", True, "22P02"),
}


@pytest.mark.parametrize("what", CANNOT)
def test_what_cannot_be_carried_is_refused_with_the_same_code(wire: Wire, what: str) -> None:
    function, value, state = CANNOT[what]
    with pytest.raises(Refused) as refused:
        wire.call(function, value=value)
    assert (refused.value.sqlstate, refused.value.field) == (state, None)
    assert wire.call("wire_integer", value=1) == 1


@pytest.mark.parametrize("arguments", [{"valu": 1}, {"value": 1, "more": 2}, {}], ids=str)
def test_wrong_arguments_are_no_function(wire: Wire, arguments: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match="wire_big is missing: run the migrations"):
        wire.call("wire_big", **arguments)
