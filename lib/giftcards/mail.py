"""The mail that delivers a gift card: text and HTML, with the card number as a QR code."""

import io
import re
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from lib.giftcards.money import format_money
from lib.giftcards.orders import Customer, Order
from lib.templates import templates

_TEMPLATES = templates(Path(__file__).parent / "templates")
_DISPLAY_NAME_LENGTH = 64
_QR_CONTENT_ID = "card-number@giftcards"


def giftcard_mail(*, sender: str, message_id: str, order: Order, personal_code: str, card_number: str) -> EmailMessage:
    """Return the message to `order.customer.email`, ready to send.

    `sender` is an address, optionally with a name: `Gift Cards <cards@example.com>`. `message_id` includes its brackets
    and is the same at every attempt, so that mail programs can detect duplicates. A recipient with a non-ASCII local
    part gets UTF-8 headers, which the mail server must support (SMTPUTF8).
    """
    recipient = _recipient(order.customer)
    amount = format_money(order.amount.amount, order.amount.currency)
    # 7bit: not every server on the way accepts 8bit.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit", utf8=not recipient.username.isascii()))
    message["Subject"] = f"Your {amount} gift card"
    message["From"] = sender
    message["To"] = recipient
    message["Date"] = datetime.now(UTC)
    message["Message-ID"] = message_id
    values = {
        "given_name": order.customer.given_name,
        "amount": amount,
        "personal_code": personal_code,
        "card_number": " ".join(re.findall(".{1,4}", card_number)),
        "personal_message": (order.message or "").strip(),
        "qr_content_id": _QR_CONTENT_ID,
    }
    message.set_content(_TEMPLATES.get_template("mail.txt").render(values))
    message.add_alternative(_TEMPLATES.get_template("mail.html").render(values), subtype="html")
    _, html = message.iter_parts()
    html.add_related(_qr_png(card_number), "image", "png", cid=f"<{_QR_CONTENT_ID}>", disposition="inline")
    return message


def _recipient(customer: Customer) -> Address:
    """Return the recipient's address, its domain in ASCII, with the customer's name.

    Characters with a meaning in headers are removed and long names are cut: Python's mail package (3.11) decodes
    `=?…?=` inside a name, folds long names without their quotation marks and puts a blank line before a long word, so
    that a name could add headers or recipients.
    """
    from email_validator import validate_email  # only this stage and the order endpoints need it

    email = validate_email(customer.email, check_deliverability=False)
    name = re.sub(r'[()<>\[\]:;@\\,."=?]', " ", f"{customer.given_name} {customer.family_name or ''}")
    return Address(" ".join(name.split())[:_DISPLAY_NAME_LENGTH].rstrip(), email.local_part, email.ascii_domain)


def _qr_png(card_number: str) -> bytes:
    import segno  # only the email stage needs it

    image = io.BytesIO()
    segno.make(card_number, error="m", micro=False).save(image, kind="png", scale=6)
    return image.getvalue()
