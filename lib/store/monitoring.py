"""Calls for monitoring: metrics and alerts."""

from collections.abc import Sequence
from typing import Any

from lib.store.calls import Calls


class MonitoringCalls(Calls):
    """Documented in `supabase/schemas/70_metrics.sql` and `71_notifications.sql`."""

    def metrics(self, *, stages: dict[str, int]) -> dict[str, Any]:
        """Return all metrics of a scrape."""
        return self._dict("giftcard_metrics", repeat=True, stages=stages)

    def check_alerts(
        self, *, stages: dict[str, int], late_seconds: float, repeat_hours: float, channels: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Claim the alerts to send now, by channel: [{channel, alerts: [{condition, kind, since, detail}]}].

        Not repeated on a lost connection: a second call would find them claimed.
        """
        notifications: list[dict[str, Any]] = self._wire.call(
            "giftcard_check_alerts",
            stages=stages,
            late_seconds=late_seconds,
            repeat_hours=repeat_hours,
            channels=tuple(channels),
        )
        return notifications

    def record_notifications(self, notified: list[dict[str, Any]]) -> None:
        """Record what became of alerts: [{channel, condition, kind, sent}]; `sent` None: it was not tried."""
        self._wire.call("giftcard_record_notifications", repeat=True, notified=notified)

    def active_alerts(self) -> list[dict[str, Any]]:
        """Return the conditions that are currently detected."""
        return self._rows("giftcard_active_alerts")
