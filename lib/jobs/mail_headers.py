"""The headers of every mail: sender, one recipient and subject, which programs that receive it read as they are meant.

Python's mail package writes what it has parsed: it decodes `=?…?=` in names, subjects and addresses, folds long names
without their quotation marks, and puts a blank line before a long word. So a message is read back before it is used.
"""

import re
from datetime import datetime
from email import message_from_string
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, default

from lib.config.mail_address import sender
from lib.errors import PermanentError, TransientError
from lib.mail_address import wire_address
from lib.validation import UNSAFE

MAX_NAME_LENGTH = 64
# Characters with a meaning in headers.
_SPECIAL = re.compile(r'[()<>\[\]:;@\\,."=?]')


def new_mail(
    *, sender: str, to: str, name: str = "", subject: str, message_id: str, sent_at: datetime | None = None
) -> EmailMessage:
    """Return a message with its headers and no content.

    `sender` is MAIL_FROM; `to` one address, and `name` its owner's, of which characters with a meaning in headers are
    removed. `message_id` includes its brackets: see `message_id_of`. `sent_at` is aware; without it, the server sets
    the date. A recipient with a non-ASCII local part gets UTF-8 headers, which the server must support (SMTPUTF8).

    Raises:
        PermanentError: `to` is not an address that a header can hold.
        TransientError: `sender` is not one address, with or without a name: the setting is at fault, not the job.
    """
    author = sender_of(sender)
    try:
        recipient = _address(_plain(name), to)
    except ValueError as problem:
        raise PermanentError(f"the recipient's address {problem}") from None
    # A sender's name keeps its commas and quotation marks if they survive.
    for own in (author, Address(_plain(author.display_name), author.username, author.domain)):
        # 7bit: not every server on the way accepts 8bit.
        message = EmailMessage(policy=SMTP.clone(cte_type="7bit", utf8=not recipient.username.isascii()))
        message["Subject"] = " ".join(subject.replace("=?", "= ?").split())
        message["From"] = own
        message["To"] = recipient
        if sent_at is not None:
            message["Date"] = sent_at
        message["Message-ID"] = message_id
        if _reads_back(message):
            return message
    raise PermanentError("the recipient's address cannot be written in a header of mails")


def sender_of(text: str) -> Address:
    """Return the sender that MAIL_FROM names, its domain in ASCII.

    Raises:
        TransientError: it is not one mail address, with or without a name.
    """
    try:
        found = sender(text)
    except ValueError:
        raise TransientError("MAIL_FROM is not one mail address, with or without a name", counts=False) from None
    return _address(found.name, found.address)


def message_id_of(key: str, sender: str) -> str:
    """Return the Message-ID of a key: the same at every attempt, so that mail programs can detect duplicates."""
    try:
        domain = sender_of(sender).domain
    except TransientError:
        domain = "localhost"
    return f"<{key}@{domain}>"


def _address(name: str, address: str) -> Address:
    local, _, domain = wire_address(address).rpartition("@")
    return Address(name, local, domain)


def _plain(name: str) -> str:
    return " ".join(_SPECIAL.sub(" ", UNSAFE.sub(" ", name)).split())[:MAX_NAME_LENGTH].rstrip()


def _reads_back(message: EmailMessage) -> bool:
    """Return whether the written message has the headers, sender and recipient that it is meant to have."""
    read = message_from_string(message.as_bytes().decode(), policy=default)
    if read.keys() != message.keys():
        return False
    return all(
        [_shown(address) for address in read[header].addresses] == [_shown(*message[header].addresses)]
        for header in ("From", "To")
    )


def _shown(address: Address) -> tuple[str, str]:
    # Without spaces: the mail package reads one more between the parts of a long name.
    return address.addr_spec, "".join(address.display_name.split())
