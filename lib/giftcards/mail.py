"""Mails to customers: the one that delivers a gift card, with its number as a QR code, and mails by template."""

import io
import re
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from lib.errors import PermanentError
from lib.giftcards.mail_message import TEMPLATE_FOLDER, MailMessage
from lib.giftcards.mail_text import message_lines, quoted, shown_name
from lib.giftcards.money import format_money
from lib.giftcards.orders import Order
from lib.templates import templates

_TEMPLATES = Path(__file__).parent / "templates"
_DISPLAY_NAME_LENGTH = 64
_QR_CONTENT_ID = "card-number@giftcards"


def giftcard_mail(
    *,
    sender: str,
    message_id: str,
    sent_at: datetime,
    order: Order,
    personal_code: str | None,
    card_number: str,
    own_templates: Path | None = None,
) -> EmailMessage:
    """Return the message to `order.customer.email`, ready to send.

    `sender` is an address, optionally with a name: `Gift Cards <cards@example.com>`. `message_id` includes its brackets
    and is the same at every attempt, so that mail programs can detect duplicates. `sent_at` is aware. Without a
    personal code the mail does not mention one. A recipient with a non-ASCII local part gets UTF-8 headers, which the
    mail server must support (SMTPUTF8). `own_templates`: a folder that is searched first.
    """
    amount = format_money(order.amount.amount, order.amount.currency)
    customer = order.customer
    given_name, family_name = shown_name(customer.given_name), shown_name(customer.family_name or "")
    to = _recipient(customer.email, f"{given_name} {family_name}")
    subject = f"Your {amount} gift card"
    message = _new_mail(sender=sender, message_id=message_id, sent_at=sent_at, subject=subject, to=to)
    values = {
        "given_name": given_name,
        "amount": amount,
        "personal_code": personal_code,
        "card_number": " ".join(re.findall(".{1,4}", card_number)),
        "message_lines": message_lines(order.message or ""),
        "quoted_lines": quoted(order.message or ""),
        "qr_content_id": _QR_CONTENT_ID,
    }
    found = templates(_TEMPLATES, first=own_templates)
    message.set_content(found.get_template("mail.txt").render(values))
    message.add_alternative(found.get_template("mail.html").render(values), subtype="html")
    _, html = message.iter_parts()
    html.add_related(_qr_png(card_number), "image", "png", cid=f"<{_QR_CONTENT_ID}>", disposition="inline")
    return message


def template_mail(
    *, sender: str, message_id: str, sent_at: datetime, mail: MailMessage, own_templates: Path | None = None
) -> EmailMessage:
    """Return a message by template, ready to send: text, and HTML in which `mail.data` is escaped.

    `own_templates`: a folder that is searched first, in its folder `messages`.

    Raises:
        PermanentError: the data does not fit the template.
    """
    found = templates(TEMPLATE_FOLDER, first=own_templates and own_templates / TEMPLATE_FOLDER.name)
    # Not within `try`: a template that is broken is no fault of the job.
    parts = [found.get_template(f"{mail.template}.{kind}") for kind in ("txt", "html")]
    try:
        text, html = (part.render(mail.data) for part in parts)
    except Exception as error:  # noqa: BLE001 - a name that is missing, a value of another type
        raise PermanentError(f"data does not fit the template {mail.template}: {error}") from None
    to = _recipient(mail.to, "")
    message = _new_mail(sender=sender, message_id=message_id, sent_at=sent_at, subject=mail.subject, to=to)
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    return message


def _new_mail(*, sender: str, message_id: str, sent_at: datetime, subject: str, to: Address) -> EmailMessage:
    """Return a message with its headers and no content."""
    # 7bit: not every server on the way accepts 8bit.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit", utf8=not to.username.isascii()))
    # Python's mail package decodes `=?…?=` in a subject, which could add headers.
    message["Subject"] = subject.replace("=?", "= ?")
    message["From"] = sender
    message["To"] = to
    message["Date"] = sent_at
    message["Message-ID"] = message_id
    return message


def _recipient(email: str, name: str) -> Address:
    """Return the recipient's address, its domain in ASCII, with the recipient's name.

    Characters with a meaning in headers are removed and long names are cut: Python's mail package (3.11) decodes
    `=?…?=` inside a name, folds long names without their quotation marks and puts a blank line before a long word, so
    that a name could add headers or recipients.
    """
    from email_validator import validate_email  # only this stage and the order endpoints need it

    address = validate_email(email, check_deliverability=False)
    name = re.sub(r'[()<>\[\]:;@\\,."=?]', " ", name)
    return Address(" ".join(name.split())[:_DISPLAY_NAME_LENGTH].rstrip(), address.local_part, address.ascii_domain)


def _qr_png(card_number: str) -> bytes:
    import segno  # only the email stage needs it

    image = io.BytesIO()
    segno.make(card_number, error="m", micro=False).save(image, kind="png", scale=6)
    return image.getvalue()
