"""The stage email: send the card to the customer."""

from lib.config.settings import Settings
from lib.errors import PermanentError
from lib.giftcards.books import read_books
from lib.giftcards.cards import missing_key, vault_of
from lib.giftcards.flow import completed
from lib.giftcards.orders import Order
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage


def _missing_setting(settings: Settings) -> str | None:
    # Development may write mails as files; production never does.
    as_file = not settings.is_production and settings.giftcard_mail_dir
    if settings.smtp_url is None and not as_file:
        return "SMTP_URL"
    return missing_key(settings)


@stage(
    "email",
    payload=Order,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_email_retry_attempts",
    needs=_missing_setting,
)
def email(payload: Order, context: Context) -> Complete:
    """Send the card to the order's recipient, at least once.

    Mail has no idempotency key, so each attempt has the same Message-ID.
    """
    books = read_books(context, payload)
    card = books.card
    if card is None:
        raise PermanentError("the order has no card to send: requeue its issue_card job")
    if card["state"] == "blocked":
        raise PermanentError("the card of the order is blocked: it is not sent")
    from lib.giftcards.card_links import page_url
    from lib.giftcards.mail import giftcard_mail
    from lib.jobs.mail_headers import message_id_of

    number = vault_of(context.settings).open(
        card["number_encrypted"], context.job.flow, number_hash=card["number_hash"]
    )
    sender = context.settings.mail_from

    def send(key: str) -> dict[str, str]:
        message = giftcard_mail(
            sender=sender,
            message_id=message_id_of(key, sender),
            sent_at=context.job.locked_at,  # by the database's clock
            order=books.order,
            personal_code=card["personal_code"],
            card_number=number,
            page_url=page_url(books.page_id, context.settings),
            default_locale=context.settings.giftcard_locale,
            own_templates=context.settings.giftcard_templates,
        )
        return context.mail.send(message)

    context.once("send", send, repeatable=True)
    return completed(context, books.order)
