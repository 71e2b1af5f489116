"""A report as a mail: text and HTML, with the cards of the last days as bars that are cells of a table.

No picture: mail programs load none without asking, and one that is attached is an attachment.
"""

from datetime import UTC, date, datetime
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

from lib.giftcards.money import format_money
from lib.telemetry.redact import clean
from lib.templates import templates

Json = dict[str, Any]

_TEMPLATES = templates(Path(__file__).parent / "templates")
_TEMPLATES.filters["money"] = format_money
_LONGEST_NAME = 60


def report_mail(*, sender: str, recipient: str, message_id: str, report: Json) -> EmailMessage:
    """The message, ready to send. `message_id` with its brackets, the same at every attempt."""
    tenant = clean(report["tenant_id"], secrets=[], limit=_LONGEST_NAME)
    # 7bit: not every server on the way takes more.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    message["Subject"] = f"Gift cards of {tenant} on {report['day']}"
    message["From"] = sender
    message["To"] = recipient
    message["Date"] = datetime.now(UTC)
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: who is away does not answer it
    values = report | {"tenant_id": tenant, "bars": bars(report["last_days"])}
    message.set_content(_TEMPLATES.get_template("report.txt").render(values))
    message.add_alternative(_TEMPLATES.get_template("report.html").render(values), subtype="html")
    return message


def bars(days: list[Json]) -> list[Json]:
    """One bar a day: its `label`, its number of `cards`, its `percent` of the longest. What is not 0 can be seen."""
    most = max((day["cards"] for day in days), default=0)
    return [
        {
            "label": date.fromisoformat(day["day"]).strftime("%a %d %b"),
            "cards": day["cards"],
            "percent": max(1, round(100 * day["cards"] / most)) if day["cards"] else 0,
        }
        for day in days
    ]
