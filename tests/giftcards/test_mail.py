"""The mail that brings a card, read back from its bytes as a mail program would."""

import io
import struct
from datetime import UTC, datetime
from email import message_from_string
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest
import segno
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lib.errors import TransientError
from lib.giftcards.mail import giftcard_mail
from lib.giftcards.orders import Order

NUMBER = "9900123412345678"
SENT_AT = datetime(2026, 1, 31, 12, 0, 7, tzinfo=UTC)
HEADERS = ["Subject", "From", "To", "Date", "Message-ID", "MIME-Version", "Content-Type"]


def _mail(*, currency: str = "USD", message: str | None = None, **customer: Any) -> EmailMessage:
    order = Order.model_validate(
        {
            "customer": {"given_name": "Kate", "family_name": "Rodgers", "email": "kate@example.com"} | customer,
            "amount": {"amount": 2500, "currency": currency},
            "message": message,
        }
    )
    written = giftcard_mail(
        sender="Gift Cards <cards@example.com>",
        message_id="<order-1@example.com>",
        sent_at=SENT_AT,
        order=order,
        personal_code="KATE1520",
        card_number=NUMBER,
    )
    read = message_from_string(written.as_bytes().decode("utf-8"), policy=default)
    assert isinstance(read, EmailMessage)
    return read


def _part(mail: EmailMessage, subtype: str) -> str:
    part = mail.get_body((subtype,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


class _Page(HTMLParser):
    """The tags and the visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_and_page_say_the_same() -> None:
    mail = _mail(message="Happy birthday!")
    for shown in (_part(mail, "plain"), _Page(_part(mail, "html")).text):
        for fact in ("Hello Kate,", "$25.00", "9900 1234 1234 5678", "KATE1520", "Happy birthday!"):
            assert fact in shown


def test_headers_are_the_expected_ones() -> None:
    mail = _mail()
    assert mail.keys() == HEADERS
    assert mail["Subject"] == "Your $25.00 gift card"
    assert mail["From"] == "Gift Cards <cards@example.com>"
    assert mail["To"] == "Kate Rodgers <kate@example.com>"
    assert mail["Message-ID"] == "<order-1@example.com>"
    assert mail["Date"].datetime == SENT_AT


def test_the_structure_is_text_or_a_page_with_its_picture() -> None:
    assert [part.get_content_type() for part in _mail().walk()] == [
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
    ]


def test_the_page_shows_the_attached_qr_code_and_describes_it() -> None:
    mail = _mail()
    (image,) = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    ((_, attributes),) = [tag for tag in _Page(_part(mail, "html")).tags if tag[0] == "img"]
    assert f"<{str(attributes['src']).removeprefix('cid:')}>" == image["Content-ID"]
    assert image.get_content_disposition() == "inline"
    assert attributes["alt"]
    png = image.get_content()
    assert png.startswith(b"\x89PNG")
    assert attributes["width"] == attributes["height"] == str(struct.unpack(">I", png[16:20])[0])


def test_the_qr_code_holds_the_card_number() -> None:
    (image,) = [part for part in _mail().walk() if part.get_content_type() == "image/png"]
    expected = io.BytesIO()
    segno.make(NUMBER, error="m", micro=False).save(expected, kind="png", scale=6)
    assert image.get_content() == expected.getvalue()


@pytest.mark.parametrize(("currency", "amount"), [("JPY", "¥2,500"), ("KWD", "KWD 2.500"), ("EUR", "€25.00")])
def test_the_amount_has_its_currencys_own_form(currency: str, amount: str) -> None:
    mail = _mail(currency=currency)
    assert mail["Subject"] == f"Your {amount} gift card"
    assert f"Amount:        {amount}\n" in _part(mail, "plain")


def test_what_people_write_is_text_and_never_markup() -> None:
    plain = [tag for tag, _ in _Page(_part(_mail(message="x"), "html")).tags]
    hostile = _mail(given_name="Kate<b>", message="<script>alert(1)</script> & 'more' \"{{ 7 * 7 }}\"")
    page = _Page(_part(hostile, "html"))
    assert [tag for tag, _ in page.tags] == plain
    assert "<script>alert(1)</script> & 'more' \"{{ 7 * 7 }}\"" in page.text
    assert "<script>alert(1)</script> & 'more' \"{{ 7 * 7 }}\"" in _part(hostile, "plain")


@pytest.mark.parametrize("message", [None, "", " \n "])
def test_without_a_message_there_is_no_empty_box(message: str | None) -> None:
    mail = _mail(message=message)
    assert "blockquote" not in _part(mail, "html")
    assert "here is your gift card.\n\nAmount:" in _part(mail, "plain")


def test_without_a_name_the_greeting_is_plain() -> None:
    mail = _mail(given_name="", family_name=None)
    assert mail["To"] == "kate@example.com"
    assert _part(mail, "plain").startswith("Hello,\n")
    assert "Hello, here" in _Page(_part(mail, "html")).text


def test_a_message_in_any_script_arrives_whole() -> None:
    message = "С днём рождения 🎁\n生日快乐 " + "é" * 1500
    quotation = [line.removeprefix("> ") for line in _part(_mail(message=message), "plain").splitlines() if ">" in line]
    assert "".join(quotation[1:]).replace(" ", "") == message.replace(" ", "").replace("\n", "")
    assert message in _Page(_part(_mail(message=message), "html")).text


def test_the_bytes_are_ascii_unless_the_address_is_not() -> None:
    order = Order.model_validate(
        {"customer": {"given_name": "Zoë", "email": "zoe@bücher.de"}, "amount": {"amount": 1, "currency": "EUR"}}
    )
    mail = giftcard_mail(
        sender="a@example.com",
        message_id="<1@example.com>",
        sent_at=SENT_AT,
        order=order,
        personal_code="ZOE0001",
        card_number=NUMBER,
    )
    assert mail.as_bytes().isascii()
    assert mail["To"].addresses[0].addr_spec == "zoe@xn--bcher-kva.de"


def test_an_address_that_is_not_ascii_is_kept() -> None:
    mail = _mail(given_name="Jürgen", email="jürgen@bücher.de")
    assert mail["To"].addresses[0].addr_spec == "jürgen@xn--bcher-kva.de"
    assert mail["To"].addresses[0].display_name == "Jürgen Rodgers"


signs = [", ", '"', "\\", "(", ";", ": ", " ", "J. R. "]
pieces = st.sampled_from([*signs, "=?utf-8?q?=0d=0aBcc:_evil@example.org?=", "<evil@example.org>", "é" * 40, "a" * 50])
names = st.lists(pieces, max_size=12).map("".join) | st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))
addresses = st.sampled_from(["kate@example.com", "jürgen@example.com", f"{'k' * 64}@{'long.' * 30}example.com"])


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@example("é" * 80, "jürgen@example.com")
@example('He said "hi" \\ (c) ' * 6, "kate@example.com")
@example("=?utf-8?q?=0d=0aBcc:_evil@example.org?=", "kate@example.com")
@given(names.map(lambda name: name[:200]), addresses)
def test_no_name_adds_a_header_or_a_recipient(name: str, email: str) -> None:
    mail = _mail(given_name=name, family_name=name, email=email)
    assert mail.keys() == HEADERS
    assert [address.addr_spec for address in mail["To"].addresses] == [email]


@pytest.mark.parametrize(
    ("field", "error", "words"),
    [("sender", TransientError, "MAIL_FROM is not one mail address"), ("message_id", ValueError, "linefeed")],
)
def test_a_line_break_in_a_header_is_refused(field: str, error: type[Exception], words: str) -> None:
    order = Order.model_validate(
        {"customer": {"given_name": "Kate", "email": "kate@example.com"}, "amount": {"amount": 1, "currency": "EUR"}}
    )
    headers = {"sender": "a@example.com", "message_id": "<1@example.com>"}
    with pytest.raises(error, match=words):
        giftcard_mail(
            **headers | {field: headers[field] + "\r\nBcc: evil@example.org"},
            sent_at=SENT_AT,
            order=order,
            personal_code="KATE0001",
            card_number=NUMBER,
        )
