"""What a mail and a page show of a card: the values that their templates share."""

import re
from typing import Any

from lib.giftcards.languages import babel_locale
from lib.giftcards.mail_text import message_lines, shown_name
from lib.giftcards.money import format_money
from lib.giftcards.orders import Order


def card_values(order: Order, personal_code: str | None, card_number: str, default_locale: str) -> dict[str, Any]:
    """Return the values of a card. The amount has the form of the order's locale, else of the default one."""
    return {
        "given_name": shown_name(order.customer.given_name),
        "amount": shown_amount(order.amount.amount, order, default_locale),
        "personal_code": personal_code,
        "card_number": " ".join(re.findall(".{1,4}", card_number)),
        "message_lines": message_lines(order.message or ""),
    }


def shown_amount(amount: int, order: Order, default_locale: str) -> str:
    """Return an amount in minor units of the order's currency, in the form of its locale."""
    locale = babel_locale(order.locale or default_locale, default_locale)
    return format_money(amount, order.amount.currency, locale)
