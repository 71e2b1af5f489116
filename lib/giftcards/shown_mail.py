"""The mail of an order as it looks, before or after it was sent."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid, PermanentError, TransientError
from lib.giftcards.books import order_of
from lib.giftcards.card_links import page_url
from lib.giftcards.cards import missing_key, vault_of
from lib.giftcards.orders import Order
from lib.telemetry.redact import covered

Json = dict[str, Any]

_COVER = "•"


def shown_mail(books: Json, settings: Settings, *, flow: tuple[str, str], reveal: bool) -> Json:
    """Return {subject, to, text, html, has_card}: the mail by today's templates and the order as it is.

    The HTML holds its QR code. Unless `reveal`, the number is covered but for its last four digits, and so are the
    address of the card's page and mail addresses, also in the message; the name is cut to its initial. Without a card
    its number is covered whole.

    Raises:
        Invalid: the customer was erased, the number cannot be decrypted, or a template is broken.
    """
    from jinja2 import TemplateError  # slow to load

    from lib.giftcards.mail import render

    card = books["card"]
    try:
        order = order_of(books["order"])
        number = _number(card, settings, flow) if reveal and card else _covered_number(card)
        mail = render(
            order if reveal else _covered(order),
            card and card["personal_code"],
            number,
            page_url=_page_url(books["order"]["page_id"], settings, reveal=reveal),
            default_locale=settings.giftcard_locale,
            own_templates=settings.giftcard_templates,
        )
    except (PermanentError, TransientError) as error:
        raise Invalid(f"the mail cannot be shown: {error}", field="correlation_id") from None
    except TemplateError as error:
        raise Invalid(f"a template of the mail is broken: {type(error).__name__}", field="correlation_id") from None
    to = order.customer.email if reveal else "[email]"
    shown = {"subject": mail.subject, "to": to, "text": mail.text, "html": mail.page(number)}
    return shown | {"has_card": card is not None}


def _number(card: Json, settings: Settings, flow: tuple[str, str]) -> str:
    missing = missing_key(settings)
    if missing:
        raise Invalid(f"the card number cannot be decrypted: set {missing}", field="reveal")
    return vault_of(settings).open(card["number_encrypted"], flow, number_hash=card["number_hash"])


def _page_url(page_id: int, settings: Settings, *, reveal: bool) -> str | None:
    """Return the address of the card's page, which shows the number without a login: covered unless `reveal`."""
    url = page_url(page_id, settings)
    return url if reveal or url is None else f"{url.rpartition('/')[0]}/{_COVER * 4}"


def _covered_number(card: Json | None) -> str:
    return _COVER * 12 + (card["last4"] if card else _COVER * 4)


def _covered(order: Order) -> Order:
    customer = order.customer.model_copy(update={"given_name": order.customer.given_name[:1]})
    return order.model_copy(update={"customer": customer, "message": covered(order.message)})
