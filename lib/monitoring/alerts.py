"""Operators hear of trouble: once when it begins, again while it lasts, and once when it is over."""

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

# All channels together, in seconds: a tick waits for them.
_PATIENCE = 10.0


def tell(store: Store, registry: Registry, settings: Settings) -> dict[str, int]:
    """Finds what is to be told and tells it on every channel. What no channel took is tried again in a minute."""
    found = store.check_alerts(
        stages=registry.ready(settings),
        late_seconds=settings.giftcard_alert_late_seconds,
        repeat_hours=settings.giftcard_alert_repeat_hours,
    )
    told = [alert for alert in found if _sent(alert, settings)]
    if told:
        store.record_notifications(told)
    return {"told": len(told), "failed": len(found) - len(told)} if found else {}


def _sent(alert: Json, settings: Settings) -> bool:
    """Whether at least one channel took it: another alert for the sake of the others would be noise."""
    text = clean(f"{_KINDS[alert['kind']]}{words(alert)}", secrets=settings.secrets(), limit=1_000)
    events.emit("alert", condition=alert["condition"], kind=alert["kind"], text=text)
    taken = 0
    for channel, send in _channels(settings):
        try:
            send(text, alert)
            taken += 1
        except Exception as error:  # noqa: BLE001 - an alert that cannot be sent never stops the tick
            said = clean(f"{type(error).__name__}: {error}", secrets=settings.secrets())
            events.emit("alert_failed", condition=alert["condition"], channel=channel, error=said)
    return taken > 0


_KINDS = {"raised": "", "repeated": "Still: ", "resolved": "Resolved: "}
# What is said when it begins or lasts, with what to do; and when it is over.
_WORDS = {
    "dead_letters": (
        "dead letters: {jobs}, of {stages}. See why: flask jobs list --status error",
        "no dead letters are left",
    ),
    "circuit": (
        "circuit {subject} is open: {cause}. Its jobs wait; see flask jobs circuits",
        "circuit {subject} is closed",
    ),
    "no_tick": ("no tick for {minutes} minutes: is the clock calling? See flask jobs doctor", "ticks come again"),
    "late": (
        "the oldest due job of stage {subject} waits for {minutes} minutes. See flask jobs status",
        "jobs of stage {subject} start in time",
    ),
    "paid_without_card": (
        "paid without a card: {orders}, the first is order {first}. See flask jobs status",
        "every order that was paid has its card",
    ),
    "limit": (
        "the last ten ticks all stopped with work left, at the {stopped_because}: raise GIFTCARD_JOBS_PER_CRON_RUN, "
        "or for the budget GIFTCARD_CONCURRENCY",
        "ticks do all that is due again",
    ),
}


def words(alert: Json) -> str:
    """What happened, and what to do about it."""
    condition, _, subject = alert["condition"].partition(":")
    if condition not in _WORDS:  # a newer schema may know other troubles
        return str(alert["condition"])
    facts = {"subject": subject, **alert["detail"]}
    if "seconds" in facts:
        facts["minutes"] = round(float(facts["seconds"]) / 60)
    if "stages" in facts:
        facts["stages"] = ", ".join(facts["stages"])
    begun, ended = _WORDS[condition]
    return (ended if alert["kind"] == "resolved" else begun).format(**facts)


def _channels(settings: Settings) -> Iterator[tuple[str, Any]]:
    until = time.monotonic() + _PATIENCE
    if settings.giftcard_alert_recipients:
        yield "mail", lambda text, alert: _mail(text, settings, until=until)
    if settings.giftcard_alert_url:
        yield "url", lambda text, alert: _post(text, alert, settings.giftcard_alert_url.get_secret_value(), until=until)
    if settings.sentry_dsn:
        yield "sentry", lambda text, alert: _to_sentry(text, alert)


def _mail(text: str, settings: Settings, *, until: float) -> None:
    for recipient in settings.giftcard_alert_recipients:
        message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
        message["Subject"] = text[:100]
        message["From"] = settings.mail_from
        message["To"] = recipient
        message["Message-ID"] = make_msgid(domain=parseaddr(settings.mail_from)[1].rpartition("@")[2] or "localhost")
        message.set_content(text + "\n")
        Mail(settings, until=until).send(message)


def _post(text: str, alert: Json, url: str, *, until: float) -> None:
    """Slack's form for Slack's addresses, and for whoever understands it; the facts beside it for everybody else."""
    body: Json = {"text": text}
    if not (urlsplit(url).hostname or "").endswith("slack.com"):
        body |= {name: alert[name] for name in ("condition", "kind", "since", "detail")}
    response = Http(until=until).request("POST", url, json=body)
    if not response.is_success:
        raise TransientError(f"the alert's address answered {response.status_code}")


def _to_sentry(text: str, alert: Json) -> None:
    from lib.telemetry import sentry

    if not sentry.message(text, level="info" if alert["kind"] == "resolved" else "error", group=alert["condition"]):
        raise Failure("Sentry is not set up in this process")
