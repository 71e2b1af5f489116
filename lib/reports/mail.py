"""Reports as mail: text and HTML, with the cards of the last days as bars made of table cells.

Not an image: mail programs do not load remote images, and list embedded ones as attachments.
"""

from datetime import date, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from lib.giftcards.money import format_money
from lib.jobs.mail_headers import new_mail
from lib.telemetry.redact import clean
from lib.templates import templates

Json = dict[str, Any]

_TEMPLATES = Path(__file__).parent / "templates"
_MAX_NAME_LENGTH = 60


def report_mail(
    *,
    sender: str,
    recipient: str,
    message_id: str,
    sent_at: datetime,
    report: Json,
    own_templates: Path | None = None,
) -> EmailMessage:
    """Return the message, ready to send.

    `message_id` includes its brackets and is the same at every attempt. `sent_at` is aware. `own_templates`: a
    folder that is searched first.
    """
    tenant = clean(report["tenant_id"], secrets=[], limit=_MAX_NAME_LENGTH)
    subject = f"Gift cards of {tenant} on {report['day']}"
    message = new_mail(sender=sender, to=recipient, subject=subject, message_id=message_id, sent_at=sent_at)
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents automatic replies
    values = report | {"tenant_id": tenant, "bars": bars(report["last_days"])}
    found = templates(_TEMPLATES, first=own_templates)
    found.filters["money"] = format_money
    message.set_content(found.get_template("report.txt").render(values))
    message.add_alternative(found.get_template("report.html").render(values), subtype="html")
    return message


def bars(days: list[Json]) -> list[Json]:
    """Return a bar per day: {label, cards, percent of the longest bar}, with at least 1 % unless there are no cards."""
    max_cards = max((day["cards"] for day in days), default=0)
    return [
        {
            "label": date.fromisoformat(day["day"]).strftime("%a %d %b"),
            "cards": day["cards"],
            "percent": max(1, round(100 * day["cards"] / max_cards)) if day["cards"] else 0,
        }
        for day in days
    ]
