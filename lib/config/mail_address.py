"""The one rule for mail addresses in settings: a sender with an optional name, and recipients.

Addresses are ASCII, so that every mail server accepts them. A domain in another script is encoded (IDN, `xn--…`).
"""

import re
from typing import NamedTuple

from lib.config.cleaning import check_text
from lib.mail_address import wire_address

# A last label of digits is an IP address, which mail servers expect in brackets.
_IP_ADDRESS = re.compile(r"(?:.*[.@])?[0-9]+")
_NAMED = re.compile(r'(?P<name>[^<>"]*|"(?:[^"\\]|\\.)*")\s*<(?P<address>[^<>]*)>')
# Letters and what is harmless between them; any other name is quoted.
_PLAIN_NAME = re.compile(r"[\w !&'*+/-]*")
_LONGEST_NAME = 200
_LIKE = "like name@example.com"
_CARDS = "cards@example.com"


class Sender(NamedTuple):
    """The sender of mails. `name`: as people read it, perhaps empty. `address`: ASCII. `is_quoted`: its name was."""

    name: str
    address: str
    is_quoted: bool = False

    def header(self) -> str:
        """Return the text of a From header; the mail's policy encodes its name."""
        if not self.name:
            return self.address
        if _PLAIN_NAME.fullmatch(self.name) and not self.is_quoted:
            return f"{self.name} <{self.address}>"
        escaped = re.sub(r'(["\\])', r"\\\1", self.name)
        return f'"{escaped}" <{self.address}>'


def mail_address(text: str) -> str:
    """Return an address, its domain encoded.

    Raises:
        ValueError: it is not one address that every server accepts; the message does not repeat it.
    """
    check_text(text)
    try:
        address = wire_address(text)
    except ValueError:
        address = ""
    if not address or not address.isascii() or _IP_ADDRESS.fullmatch(address):
        raise ValueError(f"must be {_LIKE}")
    return address


def is_mail_address(text: str) -> bool:
    """Return whether a text is one address, as `mail_address` returns it."""
    try:
        return mail_address(text) == text
    except ValueError:
        return False


def sender(text: str) -> Sender:
    """Return one address with an optional name: `cards@example.com`, `Shop <cards@example.com>`.

    Raises:
        ValueError: it is anything else.
    """
    like = "like Shop <cards@example.com>"
    check_text(text)
    if "=?" in text:
        raise ValueError(f"must have its name as people read it, without encoded words (=?…?=), {like}")
    match = _NAMED.fullmatch(text)
    name = match["name"].strip() if match else ""
    is_quoted = name.startswith('"')
    if is_quoted:
        name = re.sub(r"\\(.)", r"\1", name[1:-1]).strip()
    elif re.search(r"[,;:@()\\\[\]]", name):
        raise ValueError(
            f'must be one address, and a name with , ; : @ ( ) needs quotes, like "Cards, gifts" <{_CARDS}>'
        )
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"must have a name of at most {_LONGEST_NAME} characters")
    try:
        return Sender(name, mail_address(match["address"].strip() if match else text), is_quoted)
    except ValueError:
        raise ValueError(f"must be one mail address with an optional name, {like}") from None
