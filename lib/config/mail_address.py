"""The one rule for mail addresses in settings: a sender with an optional name, and recipients.

Addresses are ASCII, so that every mail server accepts them. A domain in another script is encoded (IDN, `xn--…`).
"""

import re
from typing import NamedTuple

from lib.config.cleaning import check_text

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The last label is no number: that would be an IP address, which mail servers expect in brackets.
_ADDRESS = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>(?:{_LABEL}\.)*(?![0-9]+\Z){_LABEL})")
_LONGEST, _LONGEST_LOCAL = 254, 64
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
    match = _ADDRESS.fullmatch(_encoded(text))
    if not match or len(match["local"]) > _LONGEST_LOCAL or len(match[0]) > _LONGEST:
        raise ValueError(f"must be {_LIKE}")
    return match[0]


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


def _encoded(text: str) -> str:
    """Return the text with its domain in ASCII; unchanged if that is impossible."""
    local, at, domain = text.rpartition("@")
    if text.isascii() or not at or not local.isascii():
        return text
    # Here, because most addresses need no encoding, and a cold start would pay for it.
    from email_validator import EmailNotValidError, validate_email

    try:
        found = validate_email(f"postmaster@{domain}", check_deliverability=False, test_environment=True)
    except EmailNotValidError:
        return text
    return f"{local}@{found.ascii_domain}"
