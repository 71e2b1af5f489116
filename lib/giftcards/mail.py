"""Mails to customers: the one that delivers a gift card, with its number as a QR code, and mails by template."""

import base64
import io
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from lib.errors import PermanentError, TransientError
from lib.giftcards.card_values import card_values
from lib.giftcards.languages import LAST_LANGUAGE, best_language, text_direction
from lib.giftcards.mail_message import TEMPLATE_FOLDER, MailMessage
from lib.giftcards.mail_text import quoted, shown_name
from lib.giftcards.orders import Order
from lib.jobs.mail_headers import new_mail
from lib.templates import templates

_TEMPLATES = Path(__file__).parent / "templates"
_QR_CONTENT_ID = "card-number@giftcards"


def giftcard_mail(
    *,
    sender: str,
    message_id: str,
    sent_at: datetime,
    order: Order,
    personal_code: str | None,
    card_number: str,
    page_url: str | None = None,
    default_locale: str = LAST_LANGUAGE,
    own_templates: Path | None = None,
) -> EmailMessage:
    """Return the message to `order.customer.email`, ready to send, in the order's language.

    `sender` is an address, optionally with a name: `Gift Cards <cards@example.com>`. `message_id` includes its brackets
    and is the same at every attempt, so that mail programs can detect duplicates. `sent_at` is aware. Without a
    personal code, or a `page_url`, the mail does not mention one. `default_locale`: of orders without a locale, or
    without a template. `own_templates`: a folder that is searched first.

    Raises:
        PermanentError, TransientError: see `new_mail`.
    """
    rendered = render(
        *(order, personal_code, card_number),
        page_url=page_url,
        default_locale=default_locale,
        own_templates=own_templates,
    )
    message = new_mail(
        sender=sender,
        to=order.customer.email,
        name=_name_of(order),
        subject=rendered.subject,
        message_id=message_id,
        sent_at=sent_at,
    )
    message.set_content(rendered.text)
    _add_page(message, rendered.html, card_number)
    return message


def _name_of(order: Order) -> str:
    customer = order.customer
    return f"{shown_name(customer.given_name)} {shown_name(customer.family_name or '')}"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail as its templates make it. The HTML refers to the QR code by its Content-ID."""

    subject: str
    text: str
    html: str

    def page(self, card_number: str) -> str:
        """Return the HTML with the QR code of a number within it, for a browser."""
        image = base64.b64encode(_qr_png(card_number)).decode()
        return self.html.replace(f"cid:{_QR_CONTENT_ID}", f"data:image/png;base64,{image}")


def render(
    order: Order,
    personal_code: str | None,
    card_number: str,
    *,
    page_url: str | None = None,
    default_locale: str = LAST_LANGUAGE,
    own_templates: Path | None = None,
) -> Rendered:
    """Render the templates of an order's mail; the arguments are those of `giftcard_mail`.

    Raises:
        TransientError: a template sets no subject.
    """
    found = templates(_TEMPLATES, first=own_templates)
    values = card_values(order, personal_code, card_number, default_locale) | {"page_url": page_url}
    values |= _values_of_mail(order, default_locale, found.list_templates())
    language = values["language"]
    text = found.get_template(f"mail.{language}.txt").make_module(values)
    subject = str(getattr(text, "subject", ""))
    if not subject:  # the template is at fault, not the job
        raise TransientError(f"the template mail.{language}.txt sets no subject", counts=False)
    page = found.get_template(f"mail.{language}.html").render(values, subject=subject)
    return Rendered(subject, str(text), page)


def _values_of_mail(order: Order, default_locale: str, names: list[str]) -> dict[str, Any]:
    """Return what a mail has besides its card, with the language of the templates `names` to be used."""
    tags = (order.locale or default_locale, default_locale)
    language = best_language(tags, names, "mail.{}.txt", "mail.{}.html")
    return {
        "language": language,
        "direction": text_direction(language),
        "quoted_lines": quoted(order.message or ""),
        "qr_content_id": _QR_CONTENT_ID,
    }


def _add_page(message: EmailMessage, page: str, card_number: str) -> None:
    message.add_alternative(page, subtype="html")
    _, html = message.iter_parts()
    html.add_related(_qr_png(card_number), "image", "png", cid=f"<{_QR_CONTENT_ID}>", disposition="inline")


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
    message = new_mail(sender=sender, to=mail.to, subject=mail.subject, message_id=message_id, sent_at=sent_at)
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    return message


def _qr_png(card_number: str) -> bytes:
    import segno  # only the email stage needs it

    image = io.BytesIO()
    segno.make(card_number, error="m", micro=False).save(image, kind="png", scale=6)
    return image.getvalue()
