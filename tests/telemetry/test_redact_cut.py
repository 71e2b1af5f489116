"""A text that is much longer than its limit is cut first, and what is covered is covered across the cut."""

import time

import pytest

from lib.telemetry.redact import MAX_ERROR_LENGTH, clean, covered
from tests.telemetry.test_redact import KATE, plain

# Texts of which these are repeated tempt a pattern to read again what it has read.
HARD = ["%40", "a%40", "%2540", "a%40b.", "://x:", "a://b:c ", "http://x:1:", "%20", "1%20", "1  ", "1.2-", "@.a://"]


def test_an_error_has_at_most_five_hundred_characters() -> None:
    assert plain("x" * 500) == "x" * 500
    assert plain("x" * 501) == "x" * 499 + "…"
    assert len(plain("é" * 10_000)) == MAX_ERROR_LENGTH == 500


@pytest.mark.parametrize("piece", ["é", "a.", "1 ", "1-", "://", "x@", "@.", " ", "basic ", "://x@", "\x00", *HARD])
def test_a_text_of_any_length_is_read_in_one_go(piece: str) -> None:
    """Were it read again from each of its characters, this would take minutes."""
    text = "a" + piece * 200_000
    assert len(plain(text)) <= 500
    covered(text[:100_000])


def test_what_is_covered_is_covered_before_it_is_cut() -> None:
    stored = plain("x" * 490 + " " + KATE)
    assert "kate" not in stored
    assert "4111" not in plain("x" * 490 + " 4111 1111 1111 1111")


SECRET = "sesame-open-sesame-0123"
PLACES = range(7_900, 8_100)


def test_the_time_for_a_text_does_not_grow_with_its_length() -> None:
    secrets = [f"secret-number-{n:04}" for n in range(200)]
    for piece in ("x", "a b ", "a@b.c ", "4111 1111 1111 1111 ", "\x00", "secret-number-0001 ", "Bearer abcdefgh "):
        text = piece * (5_000_000 // len(piece))
        began = time.thread_time()
        stored = clean(text, secrets=secrets)
        assert time.thread_time() - began < 0.1, piece
        assert len(stored) <= 500
        assert stored.endswith("…")


def shown(hidden: str, at: int, *, filler: str, secrets: tuple[str, ...] = ()) -> str:
    """What is left of a long text with this at a place, where all before it takes no room."""
    before = (filler * at)[:at]
    return clean(f"{before}{hidden}{'y' * 5_000}", secrets=list(secrets), limit=1_000)


@pytest.mark.parametrize("filler", ["\x00", "ab\x00\x00", "x", "x "])
def test_a_secret_across_the_cut_does_not_come_out(filler: str) -> None:
    for at in PLACES:
        stored = shown(SECRET, at, filler=filler, secrets=(SECRET, "open"))
        for size in range(4, len(SECRET)):
            assert SECRET[:size] not in stored, at


@pytest.mark.parametrize(
    ("hidden", "part"),
    [
        (f"{KATE} ", "kate"),
        ("4111 1111 1111 1111 ", "4111"),
        ("4111\x00\x00\x001111\x00\x00\x001111\x00\x00\x001111 ", "4111"),
        ("4111111111111111 ", "4111"),
        ("Bearer sesame-of-kate ", "sesame"),
        ("postgresql://kate:sesame@db/x ", "sesame"),
    ],
)
@pytest.mark.parametrize("filler", ["\x00", " ", "\x00x"])
def test_nothing_personal_across_the_cut_comes_out(hidden: str, part: str, filler: str) -> None:
    for at in PLACES:
        assert part not in shown(" " + hidden, at, filler=filler), at


def test_a_password_longer_than_what_is_read_does_not_come_out() -> None:
    assert "sesame" not in plain("cannot reach postgresql://kate:" + "sesame" * 10_000 + "@db.example.org/x")
    assert "kate" not in plain("to kate." * 1 + "kate." * 10_000 + "@example.org")


def test_many_controls_before_a_long_text_leave_its_end_out() -> None:
    assert plain("\x00" * 100_000 + "the reason") == "…"


def test_a_password_across_the_cut_does_not_come_out() -> None:
    for at in PLACES:
        for url in ("postgresql://kate:open-sesame@db/x", "https://kate:open sesame@db/x", "https://sesame@db/x"):
            stored = shown(f" {url} ", at, filler="\x00", secrets=("sesame",))
            assert "kate" not in stored, at
            assert "open" not in stored, at
