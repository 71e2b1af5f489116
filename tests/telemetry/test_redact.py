"""What is stored, logged or shown holds no secret and no personal data."""

import re
import secrets

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lib.telemetry.redact import clean, covered
from lib.tokens.service import PREFIX

KATE = "kate.rodgers+gift@mail.example.org"
anything = st.text(st.characters(codec=None), max_size=700)


def plain(text: str) -> str:
    return clean(text, secrets=[])


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (f"no mailbox {KATE} here", "no mailbox [email] here"),
        (f"<{KATE}>: rejected", "<[email]>: rejected"),
        (f"{KATE},{KATE};{KATE}", "[email],[email];[email]"),
        ('RCPT TO:<"kate"@example.org>', 'RCPT TO:<"kate"@example.org>'),
        ("кейт@почта.рф ist weg", "[email] ist weg"),
        ("to kate%40mail.example.org: no", "to [email]: no"),
        ("to kate%2540mail.example.org: no", "to [email]: no"),
        ("to kate%252540mail.example.org: no", "to [email]: no"),
        ("to kate＠mail.example.org: no", "to [email]: no"),
        ("to kate﹫mail.example.org: no", "to [email]: no"),
        ("to kate&#64;mail.example.org: no", "to [email]: no"),
        ("to kate&#x40;mail.example.org: no", "to [email]: no"),
        (r"to kate\u0040mail.example.org: no", "to [email]: no"),
        ("https://shop.example/find?email=kate%40mail.example.org", "https:[email]"),
        ("40% of all at 40.5", "40% of all at 40.5"),
        ("100%40 is no address", "100%40 is no address"),
        ("at 12:00 @ the shop", "at 12:00 @ the shop"),
    ],
)
def test_an_address_is_covered(said: str, stored: str) -> None:
    assert plain(said) == stored


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("Authorization: Bearer abc.DEF-123_456", "Authorization: Bearer [secret]"),
        ("authorization: bearer   abcdefgh", "authorization: bearer [secret]"),
        ("Basic a2F0ZTpzZXNhbWU=", "Basic [secret]"),
        ("Bearer\tabcdefgh", "Bearer [secret]"),
        ("the bearer of the card", "the bearer of the card"),
    ],
)
def test_a_token_is_covered(said: str, stored: str) -> None:
    assert plain(said) == stored


@pytest.mark.parametrize("said", ["use {}.", '{{"token":"{}"}}', "https://shop.example/?token={}&a=b", "x_{}"])
def test_a_token_of_the_api_is_covered_wherever_it_stands(said: str) -> None:
    token = PREFIX + secrets.token_urlsafe(32)
    assert plain(said.format(token)) == covered(said.format(token)) == said.format("[secret]")
    assert plain("gct_ab12 is revoked") == "gct_ab12 is revoked", "the characters that lists show"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://kate:sesame@db.example.org:5432/x",
        "postgresql://kate:sesame@localhost/x",
        "smtp://kate%40example.org:sesame@mail:587",
        "postgresql://kate:ses@me@localhost/x",
        "redis://:sesame@cache",
        "postgresql://kate:ses/a/me@localhost/x",
        "postgresql://kate:ses?a#me@localhost/x",
        "postgresql://kate:p/w@ses me@localhost/x",
        "postgresql://kate ben:ses me@localhost/x",
        "https://kate:ses me@shop.example/pay",
        "https://kate:ses/me@shop.example/pay?a=b",
        "https://sesame@shop.example/pay",
        "smtp://kate:ses\nme@localhost",
        "smtp://kate:" + "sesame" * 20_000 + "@mail",
        "smtp://kate:" + "ses me " * 20_000 + "@mail",
        "https://kate:" + "ses me " * 20_000 + "@mail",
    ],
)
def test_the_password_in_an_address_is_covered(url: str) -> None:
    stored = plain(f"cannot reach {url}")
    assert "ses" not in stored
    assert "me@" not in stored
    assert "kate" not in stored
    assert re.search(r"://\[secret](@\w+|…)|\[email]|^cannot reach ?…", stored)
    assert "ses" not in covered(url)


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example:8080/x: 404 for [email] @ noon",
        "http://[::1]:8080/x answered @ noon",
        "http://localhost: refused @ noon",
        "postgresql://localhost/x cannot be reached",
    ],
)
def test_an_address_without_a_password_stays(text: str) -> None:
    assert plain(text) == text


def test_the_settings_secrets_are_covered_wherever_they_stand() -> None:
    secrets = ["longer-sesame-open", "sesame-open"]
    assert clean("a longer-sesame-open b sesame-open c", secrets=secrets) == "a [secret] b [secret] c"


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("a\x00b", "a b"),
        ("a\r\nb\tc", "a b c"),
        ("a\x1b[31mred", "a [31mred"),
        ("a\x7f\x85b", "a b"),
        ("a\u2028b\u2029c", "a b c"),
        ("a\ud800b", "a b"),
        ("  \n a \n ", "a"),
        ("Zoë 李 🎁", "Zoë 李 🎁"),
    ],
)
def test_control_characters_become_spaces_and_letters_stay(said: str, stored: str) -> None:
    assert plain(said) == stored


@settings(deadline=None)
@given(text=anything)
@example("\ud800" * 600)
@example("4111 1111 1111 1111" * 40)
@example("a@b.c" * 200)
def test_whatever_comes_can_be_stored(text: str) -> None:
    stored = plain(text)
    assert len(stored) <= 500
    stored.encode("utf-8")
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", stored)
    assert "\n" not in stored


@settings(deadline=None)
@given(
    before=anything, secret=st.text(st.characters(categories=["L", "N", "P"]), min_size=8, max_size=60), after=anything
)
def test_a_secret_is_never_in_what_is_stored(before: str, secret: str, after: str) -> None:
    stored = clean(f"{before}{secret}{after}", secrets=[secret])
    assert secret not in stored or secret in "[secret] [email] [card …0000] …"


@settings(deadline=None)
@given(
    name=st.from_regex(r"[A-Za-z0-9._%+-]{1,20}", fullmatch=True),
    host=st.from_regex(r"[a-z0-9]{1,10}\.[a-z]{2,6}", fullmatch=True),
)
def test_an_address_is_never_in_what_is_stored(name: str, host: str) -> None:
    assert f"{name}@{host}" not in plain(f"to {name}@{host}: no")


# JSON for showing


def test_json_is_covered_all_through_and_keeps_its_form() -> None:
    shown = covered({"to": KATE, "n": 4111111111111111, "list": [KATE, {"deep": "4111 1111 1111 1111"}], "none": None})
    assert shown == {
        "to": "[email]",
        "n": 4111111111111111,
        "list": ["[email]", {"deep": "[card …1111]"}],
        "none": None,
    }
