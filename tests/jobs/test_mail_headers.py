"""Headers and envelope of every mail: the addresses as they were given, and nothing that a name adds."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import PermanentError, TransientError
from lib.giftcards.mail import giftcard_mail
from lib.giftcards.orders import Order
from lib.jobs.mail_headers import new_mail
from lib.jobs.smtp import Session
from lib.mail_address import normalized, wire_address
from tests.support.addresses import NAMES, VALID
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import an_order, settings_of

Send = Callable[[EmailMessage], tuple[str, list[str], EmailMessage]]

SENT_AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FROM = "Cards <cards@example.com>"
LONG = f"{'l' * 64}@{'long.' * 30}example.com"


@pytest.fixture(scope="module")
def server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def send(server: MailServer) -> Iterator[Send]:
    """Sends in one session; returns what the server got: sender, recipients, message."""
    url = settings_of(SMTP_URL=server.url).smtp_url
    assert url

    def sent(message: EmailMessage) -> tuple[str, list[str], EmailMessage]:
        session.send(message)
        return server.senders[-1], server.recipients[-1], server.mails[-1]

    with Session(url, until=float("inf")) as session:
        yield sent


def order(email: str, name: str = "Kate") -> dict[str, Any]:
    return an_order(customer={"email": email, "given_name": name, "external_id": uuid.uuid4().hex})


def to(message: EmailMessage) -> list[str]:
    return [address.addr_spec for address in message["To"].addresses]


@pytest.mark.parametrize("text", VALID)
def test_address_reaches_header_and_envelope_of_every_mail(send: Send, server: MailServer, text: str) -> None:
    accepted = Order.model_validate(order(text, "Kate, \u5c71")).customer.email
    stored = Order.model_validate_json(Order.model_validate(order(accepted)).model_dump_json())
    assert stored.customer.email == accepted
    for message in (
        card_mail(Order.model_validate(order(accepted, "Kate"))),
        new_mail(sender=FROM, to=accepted, subject="x", message_id="<1@example.com>", sent_at=SENT_AT),
    ):
        message.set_content("x") if not message.is_multipart() else None
        sender, recipients, received = send(message)
        assert (sender, recipients, to(received)) == ("cards@example.com", [VALID[text]], [VALID[text]])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "email", ["kate@example.com", "k\u00e4te@example.com", f"{'l' * 64}@{'long.' * 30}example.com"]
)
def test_name_adds_no_header_and_no_recipient(send: Send, name: str, email: str) -> None:
    message = card_mail(Order.model_validate(order(email, name[:200])))
    expected = message.keys()
    _, recipients, received = send(message)
    assert (received.keys(), recipients, to(received)) == (expected, [email], [email])
    assert "eve@" not in str(received["To"])


def card_mail(order: Order, sender: str = FROM) -> EmailMessage:
    return giftcard_mail(
        sender=sender,
        message_id="<1@example.com>",
        sent_at=SENT_AT,
        order=order,
        personal_code=None,
        card_number="9900123412345678",
    )


# The sender


@pytest.mark.parametrize(
    ("setting", "address", "name"),
    [
        ("cards@example.com", "cards@example.com", ""),
        ("<cards@example.com>", "cards@example.com", ""),
        ("Gift cards <giftcards@localhost>", "giftcards@localhost", "Gift cards"),
        ('"Shop, Inc." <cards@example.com>', "cards@example.com", "Shop, Inc."),
        ('"The \\"Shop\\" <best>" <cards@example.com>', "cards@example.com", 'The "Shop" <best>'),
        ("Caf\u00e9 \U0001f381 <cards@b\u00fccher.de>", "cards@xn--bcher-kva.de", "Caf\u00e9 \U0001f381"),
        (f'"{"Shop, " * 30}" <cards@example.com>', "cards@example.com", " ".join(["Shop"] * 13)),
    ],
)
def test_sender_reaches_header_envelope_and_message_id(send: Send, setting: str, address: str, name: str) -> None:
    sender, _, received = send(card_mail(Order.model_validate(order("kate@example.com")), setting))
    (author,) = received["From"].addresses
    assert (sender, author.addr_spec, author.display_name) == (address, address, name)


@pytest.mark.parametrize(
    "setting",
    [
        "=?utf-8?q?eve?=@example.com",
        "=?utf-8?q?Caf=C3=A9?= <cards@example.com>",
        "Cards <=?utf-8?q?eve?=@example.com>",
        "cards@example.com, eve@example.org",
        "Cards <cards@example.com>, Eve <eve@example.org>",
        "Shop, Inc. <cards@example.com>",
        "Cards <cards@example.com>\r\nBcc: eve@example.org",
        "=?utf-8?q?a=0d=0aBcc:_eve@example.org?= <cards@example.com>",
        '"cards"@example.com',
        "k\u00e4te@example.com",
        "cards",
    ],
)
def test_other_sender_sends_nothing_and_blames_the_setting(setting: str) -> None:
    with pytest.raises(TransientError, match="MAIL_FROM is not one mail address") as raised:
        card_mail(Order.model_validate(order("kate@example.com")), setting)
    assert not raised.value.counts


# What is accepted can be sent

LOCALS = st.lists(
    st.sampled_from([*"aZ09!#$%&'*+-/=?^_`{|}~.", "=?utf-8?q?x?=", "\u00e9", "e\u0301", "\u5c71", "\u05d0", "\uff20"])
    | st.characters(exclude_categories=["Cs"]),
    max_size=70,
).map("".join)
DOMAINS = st.lists(
    st.sampled_from(["a", "example", "xn--bcher-kva", "b\u00fccher", *"\u3002.-_\u00df\u05d0", "d" * 30])
    | st.characters(min_codepoint=0x80, exclude_categories=["Cs"]),
    max_size=8,
).map("".join)


@settings(deadline=None, max_examples=150)
@given(LOCALS, DOMAINS, st.sampled_from([".com", ".de", ""]))
def test_whatever_is_accepted_can_be_sent(send: Send, local: str, domain: str, top: str) -> None:
    try:
        accepted = normalized(f"{local}@{domain}{top}")
    except ValueError:
        return
    assert normalized(accepted) == accepted
    message = new_mail(sender=FROM, to=accepted, subject="x", message_id="<1@example.com>", sent_at=SENT_AT)
    _, recipients, received = send(message)
    assert recipients == to(received) == [wire_address(accepted)]


def test_header_that_would_not_read_back_is_refused() -> None:
    with pytest.raises(PermanentError, match=r"the recipient's address has =[?]"):
        new_mail(sender=FROM, to="=?utf-8?q?eve?=@a.com", subject="x", message_id="<1@a.com>", sent_at=SENT_AT)
