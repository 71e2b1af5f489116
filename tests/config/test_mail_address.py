"""MAIL_FROM: one address with an optional name, and the one rule for all addresses in settings."""

from email.message import EmailMessage
from email.policy import SMTP

import pytest

from lib.config.mail_address import is_mail_address, mail_address, sender

GOOD = {
    "cards@example.com": ("", "cards@example.com"),
    "<cards@example.com>": ("", "cards@example.com"),
    "Gift cards <cards@example.com>": ("Gift cards", "cards@example.com"),
    "Gift cards<cards@example.com>": ("Gift cards", "cards@example.com"),
    '"Cards, gifts" <cards@example.com>': ("Cards, gifts", "cards@example.com"),
    '"A \\"B\\" C" <cards@example.com>': ('A "B" C', "cards@example.com"),
    "Käte & Söhne <cards@bücher.example>": ("Käte & Söhne", "cards@xn--bcher-kva.example"),
    "Подарки <a@почта.рф>": ("Подарки", "a@xn--80a1acny.xn--p1ai"),
    "礼品卡 <cards@例え.テスト>": ("礼品卡", "cards@xn--r8jz45g.xn--zckzah"),
    "هدايا <cards@example.com>": ("هدايا", "cards@example.com"),
    "Dr. Shop <cards@example.com>": ("Dr. Shop", "cards@example.com"),
    "cards@ｅxample.com": ("", "cards@example.com"),
    "giftcards@localhost": ("", "giftcards@localhost"),
    "a+b'c@x-y.example": ("", "a+b'c@x-y.example"),
}
BAD = (
    *(
        "",
        "Shop",
        "example.com",
        "@example.com",
        "cards@",
        "cards@@example.com",
        "cards@example..com",
        "cards@-x.example",
    ),
    *(
        "cards@example.com.",
        "cards@x_y.example",
        "cards@127.0.0.1",
        "cards@[127.0.0.1]",
        ".a@b.example",
        "a..b@c.example",
    ),
    *(
        "käte@example.com",
        "a b@example.com",
        "mailto:cards@example.com",
        f"{'a' * 65}@b.example",
        f"a@{'b' * 64}.example",
    ),
    *(
        f"a@{'b.' * 130}example",
        "cards@example.com\r\nBcc: eve@x.example",
        "a\nb <cards@example.com>",
        "a\x0bb@c.example",
    ),
    "a\u202eb <cards@example.com>",
    "a\u2028b <cards@example.com>",
    "a\udcff <cards@example.com>",
)
BAD_SENDERS = (
    *BAD,
    *(
        "a@b.example, c@d.example",
        "a@b.example c@d.example",
        "a@b.example;c@d.example",
        "A <a@b.example>, B <c@d.example>",
    ),
    "Cards, gifts <cards@example.com>",
    "a@b.example <c@d.example>",
    "Shop <a@b.example> <c@d.example>",
    *(
        "Shop <>",
        "Shop <cards@example.com",
        "Shop cards@example.com>",
        "Shop <cards@example.com> more",
        "Shop: a@b.example;",
    ),
    "=?utf-8?q?Shop?= <cards@example.com>",
    "Shop <=?utf-8?q?cards?=@example.com>",
    '"=?x?q?y?=" <a@b.example>',
    '"Shop <cards@example.com>',
    'Shop" <cards@example.com>',
    f"{'x' * 201} <cards@example.com>",
    "<your address>",
)


@pytest.mark.parametrize("text", GOOD)
def test_sender_is_one_address_with_a_name(text: str) -> None:
    found = sender(text)
    assert (found.name, found.address) == GOOD[text]
    assert sender(found.header())[:2] == found[:2], "it stays the same when it is read again"
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["From"] = found.header()
    (address,) = message["From"].addresses
    assert (address.display_name, address.addr_spec) == GOOD[text]
    assert message.as_bytes().isascii()
    assert message.as_bytes().count(b"\r\n") <= 3


@pytest.mark.parametrize("text", BAD_SENDERS)
def test_any_other_sender_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|placeholder") as caught:
        sender(text)
    assert len(text) < 25 or text not in str(caught.value)


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert not is_mail_address(text)
    with pytest.raises(ValueError, match="must"):
        mail_address(text)


def test_domain_of_another_script_is_encoded() -> None:
    assert mail_address("a@bücher.example") == "a@xn--bcher-kva.example"
    assert not is_mail_address("a@bücher.example")
    assert is_mail_address("a@xn--bcher-kva.example")
