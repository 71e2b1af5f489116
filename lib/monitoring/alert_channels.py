"""The channels of alerts: each recipient of mails, a URL, Sentry. An address that is wrong is a channel that fails."""

import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from typing import TYPE_CHECKING, Any

from lib.config.mail_address import is_mail_address
from lib.config.parsers import MAX_RECIPIENTS
from lib.config.settings import Settings
from lib.errors import Failure, PermanentError, TransientError
from lib.jobs.clients import Http, Mail
from lib.jobs.mail_headers import message_id_of, new_mail
from lib.mail_address import is_sendable

if TYPE_CHECKING:  # smtplib
    from lib.jobs.smtp import Session as _Session

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """Where alerts are sent to. `key`: how the database knows it; `name`: how logs name it, without its address."""

    key: str
    name: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert to one channel. `row`: condition, kind, since and detail; `text`: cleaned."""

    row: Json
    text: str


@dataclass(frozen=True, slots=True)
class Notification:
    """What one channel is to be sent."""

    channel: Channel
    alerts: Sequence[Alert]


# Called with each alert that was tried, and its error if it failed.
Report = Callable[[Channel, Alert, Exception | None], None]
# Sends notifications until a `time.monotonic()` value. It raises if all those not yet reported fail for one reason.
Sender = Callable[[Sequence[Notification], float, Report], None]


def senders(settings: Settings) -> Iterator[tuple[Sender, list[Channel]]]:
    """Return each way to send with its channels. They fail and hang apart from each other."""
    if settings.giftcard_alert_recipients:
        yield (
            partial(_mail, settings),
            [
                Channel(f"mail:{_digest(address, settings)}", f"mail {position}", address)
                for position, address in enumerate(settings.giftcard_alert_recipients, start=1)
            ],
        )
    if settings.giftcard_alert_url:
        url = settings.giftcard_alert_url
        text = url.get_secret_value()
        yield partial(_post, url.host), [Channel(f"url:{_digest(text, settings)}", "url", text)]
    if settings.sentry_dsn:
        yield _to_sentry, [Channel("sentry", "sentry")]


def _digest(address: str, settings: Settings) -> str:
    """Return what the database stores instead of an address: under a key, or addresses could be guessed."""
    key = settings.giftcard_lookup_key or settings.cron_secret
    secret = key.get_secret_value().encode() if key else b""
    return hmac.new(secret, b"alert channel\0" + address.encode(), hashlib.sha256).hexdigest()[:32]


def _mail(settings: Settings, notifications: Sequence[Notification], until: float, report: Report) -> None:
    """Send mails, in one session where possible. A server that cannot be reached fails for all recipients."""
    with ExitStack() as stack:
        session: _Session | None = None
        for notification, deadline in _with_deadlines(notifications, until):
            for alert in notification.alerts:
                try:
                    session = _session(settings, session, stack, deadline)
                except Failure as error:
                    if time.monotonic() < deadline:
                        raise
                    report(notification.channel, alert, error)
                    continue
                try:
                    message = _message(alert.text, notification.channel, settings)
                    send = session.send if session else Mail(settings, until=deadline).send
                    send(message)
                except Exception as error:  # noqa: BLE001 - the others are sent all the same
                    report(notification.channel, alert, error)
                else:
                    report(notification.channel, alert, None)


def _session(settings: Settings, session: "_Session | None", stack: ExitStack, until: float) -> "_Session | None":
    """Return the session, or a new one if it has ended. Without a server (in development) there is none."""
    from lib.jobs.smtp import Session

    if settings.smtp_url is None:
        return None
    if session is None or not session.is_open:
        return stack.enter_context(Session(settings.smtp_url, until=until))
    session.until = until
    return session


def _with_deadlines(notifications: Sequence[Notification], until: float) -> Iterator[tuple[Notification, float]]:
    """Give each notification half of the time that is left, so that one that hangs leaves some to the next."""
    for left, notification in zip(range(len(notifications) - 1, -1, -1), notifications, strict=True):
        now = time.monotonic()
        yield notification, now + (until - now) / (2 if left else 1)


def _message(text: str, channel: Channel, settings: Settings) -> EmailMessage:
    position = int(channel.name.partition(" ")[2])
    if position > MAX_RECIPIENTS:
        raise PermanentError(f"GIFTCARD_ALERT_RECIPIENTS may have {MAX_RECIPIENTS} addresses: use a mailing list")
    if not is_mail_address(channel.address) or not is_sendable(channel.address):
        raise PermanentError(f"address {position} of GIFTCARD_ALERT_RECIPIENTS is not a mail address")
    sender = settings.mail_from
    mail = new_mail(
        sender=sender,
        to=channel.address,
        subject=text[:100],
        message_id=message_id_of(uuid.uuid4().hex, sender),
    )
    mail.set_content(text + "\n")
    return mail


def _post(host: str, notifications: Sequence[Notification], until: float, report: Report) -> None:
    """Post alerts: to Slack's addresses the text alone, to any other the fields too."""
    for notification in notifications:
        for alert in notification.alerts:
            if host == "slack.com" or host.endswith(".slack.com"):
                # Slack's control sequences, such as <!channel>, begin with these.
                body = {"text": alert.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
            else:
                body = {"text": alert.text, **alert.row}
            try:
                response = Http(until=until).request("POST", notification.channel.address, json=body)
                if not response.is_success:
                    raise TransientError(f"GIFTCARD_ALERT_URL responded with {response.status_code}")
            except Exception as error:  # noqa: BLE001
                report(notification.channel, alert, error)
            else:
                report(notification.channel, alert, None)


def _to_sentry(notifications: Sequence[Notification], _until: float, report: Report) -> None:
    from lib.telemetry import sentry

    for notification in notifications:
        for alert in notification.alerts:
            level = "info" if alert.row["kind"] == "resolved" else "error"
            if not sentry.message(alert.text, level=level, group=alert.row["condition"]):
                raise Failure("Sentry is not configured in this process")
            report(notification.channel, alert, None)
