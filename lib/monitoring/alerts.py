"""Alerts to operators: one when a condition begins, reminders while it holds, and one when it is resolved."""

import time
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import make_msgid, parseaddr
from typing import Any
from urllib.parse import urlsplit

from lib.config.settings import Settings
from lib.errors import Failure, TransientError
from lib.jobs.clients import Http, Mail
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry import events
from lib.telemetry.redact import clean

Json = dict[str, Any]

# Seconds for all channels together: a tick waits for them.
_TIMEOUT = 10.0


def notify(store: Store, registry: Registry, settings: Settings) -> dict[str, int]:
    """Send the alerts that are due on every channel; return how many were `sent` and `failed`, empty if none were due.

    An alert that no channel accepts is tried again in a minute.
    """
    due = store.check_alerts(
        stages=registry.ready(settings),
        late_seconds=settings.giftcard_alert_late_seconds,
        repeat_hours=settings.giftcard_alert_repeat_hours,
    )
    sent = [alert for alert in due if _sent(alert, settings)]
    if sent:
        store.record_notifications(sent)
    return {"sent": len(sent), "failed": len(due) - len(sent)} if due else {}


def _sent(alert: Json, settings: Settings) -> bool:
    """Send an alert; return whether any channel accepted it. Repeating it for the other channels would be noise."""
    text = clean(f"{_KINDS[alert['kind']]}{message(alert)}", secrets=settings.secrets(), limit=1_000)
    events.emit("alert", condition=alert["condition"], kind=alert["kind"], text=text)
    accepted = 0
    for channel, send in _channels(settings):
        try:
            send(text, alert)
            accepted += 1
        except Exception as error:  # noqa: BLE001 - an alert that cannot be sent never stops the tick
            reason = clean(f"{type(error).__name__}: {error}", secrets=settings.secrets())
            events.emit("alert_failed", condition=alert["condition"], channel=channel, error=reason)
    return accepted > 0


_KINDS = {"raised": "", "repeated": "Still: ", "resolved": "Resolved: "}
# The message while a condition holds, with what to do, and the one when it is resolved.
_MESSAGES = {
    "dead_letters": (
        "dead letters: {jobs}, of {stages}. See why: flask jobs list --status error",
        "no dead letters are left",
    ),
    "circuit": (
        "circuit {subject} is open: {cause}. Its jobs wait; see flask jobs circuits",
        "circuit {subject} is closed",
    ),
    "no_tick": ("no tick for {minutes} minutes: check the clock with flask jobs doctor", "ticks run again"),
    "late": (
        "the oldest due job of stage {subject} has waited for {minutes} minutes. See flask jobs status",
        "jobs of stage {subject} start on time",
    ),
    "paid_without_card": (
        "paid without a card: {orders}, the first is order {first}. See flask jobs status",
        "every order that was paid has its card",
    ),
    "limit": (
        "the last ten ticks all stopped at the {stopped_because} with due jobs left: raise GIFTCARD_JOBS_PER_CRON_RUN "
        "(limit) or GIFTCARD_CONCURRENCY (budget)",
        "ticks run all due jobs again",
    ),
}


def message(alert: Json) -> str:
    """Return what is wrong and what to do; of a resolved alert, that it is over."""
    condition, _, subject = alert["condition"].partition(":")
    if condition not in _MESSAGES:  # a newer schema may have other conditions
        return str(alert["condition"])
    facts = {"subject": subject, **alert["detail"]}
    if "seconds" in facts:
        facts["minutes"] = round(float(facts["seconds"]) / 60)
    if "stages" in facts:
        facts["stages"] = ", ".join(facts["stages"])
    holds, resolved = _MESSAGES[condition]
    return (resolved if alert["kind"] == "resolved" else holds).format(**facts)


def _channels(settings: Settings) -> Iterator[tuple[str, Any]]:
    until = time.monotonic() + _TIMEOUT
    if settings.giftcard_alert_recipients:
        yield "mail", lambda text, alert: _mail(text, settings, until=until)
    if settings.giftcard_alert_url:
        yield "url", lambda text, alert: _post(text, alert, settings.giftcard_alert_url.get_secret_value(), until=until)
    if settings.sentry_dsn:
        yield "sentry", lambda text, alert: _to_sentry(text, alert)


def _mail(text: str, settings: Settings, *, until: float) -> None:
    for recipient in settings.giftcard_alert_recipients:
        mail = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
        mail["Subject"] = text[:100]
        mail["From"] = settings.mail_from
        mail["To"] = recipient
        mail["Message-ID"] = make_msgid(domain=parseaddr(settings.mail_from)[1].rpartition("@")[2] or "localhost")
        mail.set_content(text + "\n")
        Mail(settings, until=until).send(mail)


def _post(text: str, alert: Json, url: str, *, until: float) -> None:
    """Post an alert: for Slack's addresses the text alone, for any other its fields too."""
    body: Json = {"text": text}
    if not (urlsplit(url).hostname or "").endswith("slack.com"):
        body |= {name: alert[name] for name in ("condition", "kind", "since", "detail")}
    response = Http(until=until).request("POST", url, json=body)
    if not response.is_success:
        raise TransientError(f"GIFTCARD_ALERT_URL responded with {response.status_code}")


def _to_sentry(text: str, alert: Json) -> None:
    from lib.telemetry import sentry

    if not sentry.message(text, level="info" if alert["kind"] == "resolved" else "error", group=alert["condition"]):
        raise Failure("Sentry is not configured in this process")
