"""What of an answer is kept: its beginning, as text, without what nobody may see, also where it is cut off."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lib.safe_http.response import MAX_READ_BYTES, MAX_STORED_BYTES, Response, excerpt, retry_after

SECRET = "s3cr3t-of-a-job"


def an_answer(body: bytes, *, complete: bool = True, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=200, headers=named, body=body, complete=complete)


def test_short_answer_is_kept_as_one_line() -> None:
    assert excerpt(an_answer('{"ok":\r\n\ttrue, "ü": "\x00"}'.encode()), secrets=[]) == '{"ok": true, "ü": " "}'


def test_long_answer_is_kept_up_to_two_kilobytes() -> None:
    text = excerpt(an_answer(b"x" * 10_000), secrets=[])
    assert text == "x" * MAX_STORED_BYTES
    assert len(excerpt(an_answer("ü".encode() * 10_000), secrets=[]).encode()) == MAX_STORED_BYTES
    assert excerpt(an_answer("ä€".encode() * 10_000), secrets=[]).startswith("ä€ä€")


def test_secrets_and_personal_data_are_not_excerpt() -> None:
    body = f"you sent {SECRET}, kate@example.com paid with 4111 1111 1111 1111; Bearer abcdefgh".encode()
    assert excerpt(an_answer(body), secrets=[SECRET]) == (
        "you sent [secret], [email] paid with [card …1111]; Bearer [secret]"
    )


@given(
    before=some.integers(0, MAX_STORED_BYTES + 600),
    matter=some.sampled_from([SECRET, "k.rodgers-of-wherever@example.com", "4111111111111111"]),
    cut=some.integers(3, 40),
    times=some.integers(0, 40),
)
def test_nothing_of_it_is_kept_wherever_the_text_is_cut(before: int, matter: str, cut: int, times: int) -> None:
    # What is covered before it moves the end of what is kept.
    text = f"{SECRET} " * times + "." * before + f" {matter}"
    for answer in (
        an_answer(f"{text} and more".encode()),
        an_answer(text[: len(text) - len(matter) + cut].encode(), complete=False),
    ):
        assert matter[:3] not in excerpt(answer, secrets=[SECRET])


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_packed_answer_is_unpacked(pack: object) -> None:
    body = pack(b"packed all the same")  # type: ignore[operator]
    assert excerpt(an_answer(body, content_encoding="gzip"), secrets=[]) == "packed all the same"


def test_bomb_is_unpacked_no_further_than_needed() -> None:
    bomb = an_answer(gzip.compress(b"a" * 10_000_000), content_encoding="GZIP")
    assert len(bomb.body) < MAX_READ_BYTES
    tracemalloc.start()
    try:
        assert excerpt(bomb, secrets=[]) == "a" * MAX_STORED_BYTES
        # Far below the bomb, far above what other threads and first imports allocate meanwhile.
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", ["br", "zstd", "gzip, br", "nonsense"])
def test_what_cannot_be_unpacked_is_not_excerpt(packed: str) -> None:
    assert excerpt(an_answer(b"\x8b\x02\x80secret", content_encoding=packed), secrets=[]) == ""
    assert excerpt(an_answer(b"not packed at all", content_encoding="gzip"), secrets=[]) == ""


@given(some.binary(max_size=300), some.booleans())
def test_whatever_comes_can_be_stored(body: bytes, complete: bool) -> None:
    text = excerpt(an_answer(body, complete=complete), secrets=[SECRET])
    assert "\x00" not in text
    text.encode()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 120 "}, 120),
        ({"retry-after": "Wed, 21 Oct 2015 07:30:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 120),
        ({"retry-after": "Wednesday, 21-Oct-15 07:30:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 120),
        ({"retry-after": "Wed, 21 Oct 2015 07:30:00 -0000", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 120),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 2015 07:30:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "nonsense"}, 0),
        ({"retry-after": "Fri, 99 Oct 99999 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 +99999999999999"}, None),
        ({"retry-after": "٧"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_both_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@given(some.text(max_size=60))
def test_no_retry_after_breaks_anything(text: str) -> None:
    found = retry_after({"retry-after": text, "date": text})
    assert found is None or found >= 0
