"""What the customer's page shows. The first request for one imports this, with Jinja2, Babel and segno."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from lib.config.settings import Settings
from lib.giftcards.books import order_of
from lib.giftcards.card_values import card_values, shown_amount
from lib.giftcards.cards import vault_of
from lib.giftcards.languages import best_language, text_direction
from lib.templates import templates

Values = dict[str, Any]

# The states that change by themselves: their page reloads.
OPEN = frozenset({"received", "paid", "late", "unavailable"})
_TEMPLATES = Path(__file__).parent / "templates"


def card_of(found: Values, settings: Settings) -> Values:
    """Return the values of a card that the database has found.

    Raises:
        PermanentError, TransientError: its number or its order cannot be read.
    """
    order, card = order_of(found["order"]), found["card"]
    flow = (found["tenant_id"], found["correlation_id"])
    number = vault_of(settings).open(card["number_encrypted"], flow, number_hash=card["number_hash"])
    is_used = card["balance"] != order.amount.amount
    return card_values(order, card["personal_code"], number, settings.giftcard_locale) | {
        "balance": shown_amount(card["balance"], order, settings.giftcard_locale) if is_used else None,
        "qr": _qr_svg(number),
    }


def render(
    state: str, settings: Settings, *, locale: str | None, card: Values | None, is_still: bool, seconds: int
) -> str:
    """Return the page in HTML. `is_still`: it does not reload, which it would after `seconds`."""
    found = templates(_TEMPLATES, first=settings.giftcard_templates)
    tags = (locale or settings.giftcard_locale, settings.giftcard_locale)
    language = best_language(tags, found.list_templates(), "card_page.{}.html")
    return found.get_template(f"card_page.{language}.html").render(
        language=language,
        direction=text_direction(language),
        state=state,
        card=card,
        is_open=state in OPEN,
        is_still=is_still,
        seconds=seconds,
        versions={name: _version(name, settings.giftcard_templates) for name in ("card_page.css", "card_page.svg")},
    )


def file(name: str, settings: Settings) -> str:
    """Return the text of a file of the page."""
    return templates(_TEMPLATES, first=settings.giftcard_templates).get_template(name).render()


@cache
def _version(name: str, own_templates: Path | None) -> str:
    content = templates(_TEMPLATES, first=own_templates).get_template(name).render()
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _qr_svg(card_number: str) -> str:
    import segno

    return segno.make(card_number, error="m", micro=False).svg_inline(omitsize=True, light="#fff", svgclass=None)
