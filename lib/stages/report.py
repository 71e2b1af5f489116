"""Makes the report of a day, and mails it."""

import hashlib
from datetime import UTC, date, timedelta
from email.utils import parseaddr
from typing import Any

from lib.config.settings import Settings
from lib.errors import PermanentError
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage
from lib.reports.schemas import ALL_TENANTS, ReportJob

# As many as one call enqueues.
_MOST_TENANTS = 1000


def _needs(settings: Settings) -> str | None:
    # Development may write mails as files; production never does.
    as_file = not settings.is_production and settings.giftcard_mail_dir
    return "SMTP_URL" if settings.report_recipients and settings.smtp_url is None and not as_file else None


@stage(
    "report",
    payload=ReportJob,
    policy=RetryPolicy(max_attempts=3, base=1, cap=60, jitter=0.3),
    attempts_setting="max_report_retry_attempts",
    needs=_needs,
)
def report(wanted: ReportJob, context: Context) -> Complete:
    """Made anew at each attempt, which replaces the former one; mailed to each recipient once."""
    day = wanted.day or _yesterday(context)
    # The tenant of a message that came through an inlet is the job's.
    tenant = wanted.tenant_id or context.job.tenant_id
    if tenant == ALL_TENANTS:
        return Complete(context={"day": day.isoformat()}, next=_one_each(context.store.report_tenants(day), day))
    made = context.store.make_report(tenant, day=day)
    _mail(made, context)
    return Complete(context={"day": day.isoformat()})


def _yesterday(context: Context) -> date:
    """Seen from the first attempt, by the database's clock: one that succeeds a day later is still about that day."""
    seen_now = context.job.locked_at.astimezone(UTC).date() - timedelta(days=1)
    kept = context.once("day", lambda key: {"day": seen_now.isoformat()}, repeatable=True)
    return date.fromisoformat(kept["day"])


def _one_each(tenants: list[str], day: date) -> tuple[NextJob, ...]:
    if len(tenants) >= _MOST_TENANTS:
        raise PermanentError(f"{_MOST_TENANTS} tenants or more are too many for one job: have one for each instead")
    return tuple(
        NextJob(stage="report", dedup_key=tenant, payload={"tenant_id": tenant, "day": day.isoformat()})
        for tenant in tenants
    )


def _mail(made: dict[str, Any], context: Context) -> None:
    """A message for each recipient: an address that is refused keeps it from no other.

    Raises:
        PermanentError: some are refused for good; the others have it.
        TransientError: the mail server cannot be had now. Who has it already does not get it again.
    """
    recipients = context.settings.report_recipients
    if not recipients:
        return
    from lib.reports.mail import report_mail

    sender = context.settings.mail_from
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    refused = 0
    for recipient in recipients:

        def send(key: str, recipient: str = recipient) -> dict[str, str]:
            message_id = f"<{key}@{domain}>"
            return context.mail.send(
                report_mail(sender=sender, recipient=recipient, message_id=message_id, report=made)
            )

        try:
            # An address is nothing to keep with an effect.
            context.once(f"mail:{hashlib.sha256(recipient.encode()).hexdigest()[:16]}", send, repeatable=True)
        except PermanentError:
            refused += 1
    if refused:
        raise PermanentError(
            f"{refused} of {len(recipients)} REPORT_RECIPIENTS are refused; the others have the report"
        )
