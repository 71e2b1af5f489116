"""The stage report: create and mail the report of a day."""

import hashlib
from datetime import UTC, date, timedelta
from typing import Any

from pydantic import ValidationError

from lib.config.settings import Settings
from lib.errors import PermanentError
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage
from lib.reports.schemas import ALL_TENANTS, ReportJob
from lib.validation import harmless

# A job for all tenants enqueues the reports of so many, and a job for the next ones.
_TENANTS = 500


def _missing_setting(settings: Settings) -> str | None:
    # Development may write mails as files; production never does.
    as_file = not settings.is_production and settings.giftcard_mail_dir
    return "SMTP_URL" if settings.report_recipients and settings.smtp_url is None and not as_file else None


@stage(
    "report",
    payload=ReportJob,
    policy=RetryPolicy(max_attempts=3, base=1, cap=60, jitter=0.3),
    attempts_setting="max_report_retry_attempts",
    needs=_missing_setting,
)
def report(job: ReportJob, context: Context) -> Complete:
    """Create the report, replacing that of an earlier attempt, and mail it to each recipient once."""
    day = job.day or _yesterday(context)
    # The payload of a pgmq message may have no tenant; its job has one.
    tenant = job.tenant_id or context.job.tenant_id
    if tenant == ALL_TENANTS:
        return _per_tenant(context.store.report_tenants(day, after=job.after, limit=_TENANTS), day)
    _mail(context.store.make_report(tenant, day=day), context)
    return Complete(context={"day": day.isoformat()})


def _yesterday(context: Context) -> date:
    """Return the day before the first attempt, by the database's clock: a retry on the next day has the same day."""
    yesterday = context.job.locked_at.astimezone(UTC).date() - timedelta(days=1)
    stored = context.once("day", lambda key: {"day": yesterday.isoformat()}, repeatable=True)
    return date.fromisoformat(stored["day"])


def _per_tenant(tenants: list[str], day: date) -> Complete:
    """Enqueue the report of each tenant: a job of its own, so that none fails by another's."""
    payload = {"day": day.isoformat()}
    # No payload can hold the others: names that only plain SQL writes.
    named = [tenant for tenant in tenants if _has_name(tenant)]
    jobs = [NextJob(stage="report", dedup_key=name, payload=payload | {"tenant_id": name}) for name in named]
    if len(tenants) == _TENANTS:
        last = tenants[-1]
        # No tenant that has a job is called like this.
        key = f"{ALL_TENANTS}/{hashlib.sha256(last.encode()).hexdigest()[:16]}"
        jobs.append(NextJob(stage="report", dedup_key=key, payload=payload | {"tenant_id": ALL_TENANTS, "after": last}))
    left_out = [harmless(tenant) for tenant in tenants if tenant not in set(named)]
    detail = {"left_out": len(left_out), "first_left_out": ", ".join(left_out[:20])} if left_out else None
    return Complete(context=payload, next=tuple(jobs), detail=detail)


def _has_name(tenant: str) -> bool:
    try:
        return ReportJob(tenant_id=tenant).tenant_id == tenant and not tenant.startswith(ALL_TENANTS)
    except ValidationError:
        return False


def _mail(content: dict[str, Any], context: Context) -> None:
    """Send one message per recipient, so that a refused address does not affect the others.

    Raises:
        PermanentError: some addresses are refused for good; the other recipients have the report.
        TransientError: the mail server is unavailable. A retry skips the recipients who have the report.
    """
    recipients = context.settings.report_recipients
    if not recipients:
        return
    from lib.jobs.mail_headers import message_id_of
    from lib.reports.mail import report_mail

    sender = context.settings.mail_from
    refused = 0
    for recipient in recipients:

        def send(key: str, recipient: str = recipient) -> dict[str, str]:
            message = report_mail(
                sender=sender,
                recipient=recipient,
                message_id=message_id_of(key, sender),
                sent_at=context.job.locked_at,  # by the database's clock
                report=content,
                own_templates=context.settings.giftcard_templates,
            )
            return context.mail.send(message)

        try:
            # Hashed: an effect's name must not hold a mail address.
            context.once(f"mail:{hashlib.sha256(recipient.encode()).hexdigest()[:16]}", send, repeatable=True)
        except PermanentError:
            refused += 1
    if refused:
        raise PermanentError(
            f"{refused} of {len(recipients)} REPORT_RECIPIENTS are refused; the others have the report"
        )
