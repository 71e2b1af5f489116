"""Tests of the way out: one real mail, and one real alert on each channel, sent at once."""

import time
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import make_msgid
from typing import Any

from lib.config.mail_address import sender
from lib.config.settings import Settings
from lib.jobs.clients import Mail, mail_folder
from lib.monitoring.alert_channels import Alert, Channel, Notification, senders
from lib.monitoring.alerts import Delivery, reason
from lib.telemetry import sentry

Json = dict[str, Any]

# Seconds for everything.
_TIMEOUT = 15.0
_TEXT = "This is a test of the gift-card jobs. If you read it, this channel works."


def send_mail(settings: Settings, address: str) -> list[Json]:
    """Send a mail to this address as jobs do. Return one result: `channel`, `to` (the server, or None), `sent`,
    `error`."""
    error: Exception | None = None
    try:
        message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
        message["Subject"] = "Test mail of the gift-card jobs"
        message["From"] = settings.mail_from
        message["To"] = address
        message["Message-ID"] = make_msgid(domain=sender(settings.mail_from).address.rpartition("@")[2])
        message.set_content(_TEXT + "\n")
        Mail(settings, until=time.monotonic() + _TIMEOUT).send(message)
    except Exception as caught:  # noqa: BLE001 - it is the result
        error = caught
    return [_result("mail", _mail_server(settings), error, settings)]


def send_alert(settings: Settings) -> list[Json]:
    """Send an alert on each channel. Return a result for each: `channel`, `to` (the server), `sent`, `error`."""
    ways = list(senders(settings))
    row = {"condition": "test", "kind": "began", "detail": {}}
    notifications = [Notification(channel, [Alert(row, _TEXT)]) for _, channels in ways for channel in channels]
    delivery = Delivery(ways, notifications)
    delivery.run(time.monotonic() + _TIMEOUT)
    sentry.flush()
    return [
        _result(channel.name, _server(channel, settings), delivery.error(channel, "test"), settings)
        for channel in (notification.channel for notification in notifications)
    ]


def _result(channel: str, server: str | None, error: Exception | None, settings: Settings) -> Json:
    text = reason(error, settings) if error else None
    return {"channel": channel, "to": server, "sent": error is None, "error": text}


def _server(channel: Channel, settings: Settings) -> str | None:
    if channel.name == "sentry":
        return "Sentry"
    if channel.name == "url" and settings.giftcard_alert_url is not None:
        return settings.giftcard_alert_url.host
    return _mail_server(settings)


def _mail_server(settings: Settings) -> str | None:
    if settings.smtp_url is not None:
        return settings.smtp_url.host
    return None if settings.is_production else f"a file in {mail_folder(settings)}"
