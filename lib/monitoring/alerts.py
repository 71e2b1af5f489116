"""Alerts to operators: one when a condition begins, reminders while it holds, and one when it is resolved."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from lib.config.settings import MARGIN_SECONDS, Settings
from lib.errors import GiftcardError, TransientError
from lib.jobs.registry import Registry
from lib.monitoring import alert_texts
from lib.monitoring.alert_channels import Alert, Channel, Notification, Sender, senders
from lib.store.store import Store
from lib.telemetry import events
from lib.telemetry.redact import clean, covered

Json = dict[str, Any]
_Key = tuple[str, str]  # of a channel, and of a condition

# Seconds for all alerts on all channels, together with the calls of the database: half of what a tick has to end.
_TIMEOUT = MARGIN_SECONDS / 2
# Seconds that a channel ends earlier, so that it reports its failure itself.
_EARLIER = 0.5


def notify(store: Store, registry: Registry, settings: Settings, *, until: float | None = None) -> dict[str, int]:
    """Send each channel the alerts that are due for it; return how many were `sent` and `failed`, empty if none were.

    A channel that fails or hangs does not stop the others; what it did not accept is due for it again. It takes at most
    10 s, and not past `until` (a `time.monotonic()` value).

    Raises:
        StoreError: the database is unavailable.
    """
    deadline = min(time.monotonic() + _TIMEOUT, until or float("inf"))
    ways = list(senders(settings))
    due = store.check_alerts(
        stages=registry.ready(settings),
        late_seconds=settings.giftcard_alert_late_seconds,
        repeat_hours=settings.giftcard_alert_repeat_hours,
        channels=[channel.key for _, channels in ways for channel in channels],
    )
    if not due:
        return {}
    delivery = Delivery(ways, _notifications(due, ways, settings))
    delivery.run(deadline)
    delivery.log(settings)
    store.record_notifications(delivery.results())
    sent = sum(result["sent"] is True for result in delivery.results())
    return {"sent": sent, "failed": len(delivery.results()) - sent}


def _notifications(due: list[Json], ways: list[tuple[Sender, list[Channel]]], settings: Settings) -> list[Notification]:
    """Return what the database returned, with the texts of the alerts. Log each alert once."""
    channels = {channel.key: channel for _, some in ways for channel in some}
    secrets = settings.secrets()
    alerts: dict[_Key, Alert] = {}
    for row in (row for item in due for row in item["alerts"]):
        key = row["condition"], row["kind"]
        if key not in alerts:
            text = clean(alert_texts.text(row), secrets=secrets, limit=1_000)
            alerts[key] = Alert(row | {"detail": covered(row["detail"])}, text)
            events.emit("alert", condition=row["condition"], kind=row["kind"], text=text)
    return [
        Notification(channels[item["channel"]], [alerts[row["condition"], row["kind"]] for row in item["alerts"]])
        for item in due
    ]


class Delivery:
    """The notifications of one check, and what became of them."""

    def __init__(self, ways: list[tuple[Sender, list[Channel]]], notifications: Sequence[Notification]) -> None:
        self._notifications = notifications
        self._ways = [
            (send, [notification for notification in notifications if notification.channel in channels])
            for send, channels in ways
        ]
        self._tried: dict[_Key, Exception | None] = {}

    def run(self, deadline: float) -> None:
        """Send side by side, each way on a thread: nothing that a server or a resolver does takes longer."""
        threads = [
            threading.Thread(target=self._send, args=(send, some, deadline - _EARLIER), name="alerts", daemon=True)
            for send, some in self._ways
            if some
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._tried = dict(self._tried)  # a thread that still hangs reports to the former

    def _send(self, send: Sender, notifications: Sequence[Notification], until: float) -> None:
        tried = self._tried

        def report(channel: Channel, alert: Alert, error: Exception | None) -> None:
            tried[channel.key, alert.row["condition"]] = error

        try:
            send(notifications, until, report)
        except Exception as error:  # noqa: BLE001 - an alert that cannot be sent never stops the tick
            for notification in notifications:
                for alert in notification.alerts:
                    tried.setdefault((notification.channel.key, alert.row["condition"]), error)

    def results(self) -> list[Json]:
        """Return the results as `record_notifications` takes them."""
        return [
            {"channel": notification.channel.key, "condition": key[1], "kind": alert.row["kind"], "sent": sent}
            for notification in self._notifications
            for alert in notification.alerts
            for key in [(notification.channel.key, alert.row["condition"])]
            for sent in [self._tried[key] is None if key in self._tried else None]
        ]

    def error(self, channel: Channel, condition: str) -> Exception | None:
        """Return why a channel did not accept its alert of this condition; None: it did."""
        return self._tried.get((channel.key, condition), TransientError("no time was left"))

    def log(self, settings: Settings) -> None:
        """Log each channel that did not accept all of its alerts, with its first failure."""
        for notification in self._notifications:
            keys = [(notification.channel.key, alert.row["condition"]) for alert in notification.alerts]
            failed = [key for key in keys if self._tried.get(key, True)]
            if failed:
                events.emit(
                    "alert_failed",
                    channel=notification.channel.name,
                    condition=failed[0][1],
                    alerts=len(failed),
                    error=reason(self._tried.get(failed[0]), settings),
                )


def reason(error: Exception | None, settings: Settings) -> str:
    """Return why an alert failed. The messages of libraries may repeat a setting, so of them only the type."""
    if error is None:
        return "no time was left"
    name = type(error).__name__
    return clean(f"{name}: {error}" if isinstance(error, GiftcardError) else name, secrets=settings.secrets())
