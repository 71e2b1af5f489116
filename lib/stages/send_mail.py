"""The stage send_mail: send a mail by template, for other services."""

from lib.config.settings import Settings
from lib.errors import PermanentError
from lib.giftcards.mail_message import MailMessage, check_template
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage


def _missing_setting(settings: Settings) -> str | None:
    # Development may write mails as files; production never does.
    as_file = not settings.is_production and settings.giftcard_mail_dir
    return "SMTP_URL" if settings.smtp_url is None and not as_file else None


@stage(
    "send_mail",
    payload=MailMessage,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_email_retry_attempts",
    needs=_missing_setting,
)
def send_mail(mail: MailMessage, context: Context) -> Complete:
    """Send the mail, at least once: mail has no idempotency key, so each attempt has the same Message-ID."""
    from lib.giftcards.mail import template_mail
    from lib.jobs.mail_headers import message_id_of

    own_templates = context.settings.giftcard_templates
    try:
        check_template(mail.template, own_templates)
    except ValueError as error:
        raise PermanentError(f"payload: template {error}") from None
    sender = context.settings.mail_from

    def send(key: str) -> dict[str, str]:
        # The date is by the database's clock.
        sent_at = context.job.locked_at
        message = template_mail(
            sender=sender,
            message_id=message_id_of(key, sender),
            sent_at=sent_at,
            mail=mail,
            own_templates=own_templates,
        )
        return context.mail.send(message)

    context.once("send", send, repeatable=True)
    return Complete()
