"""Calls for monitoring: metrics and alerts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lib.store.calls import Calls


class MonitoringCalls(Calls):
    """Documented in `supabase/schemas/`: 11 (wakes), 70 (metrics), 71 (notifications) and 76 (overview)."""

    def overview(
        self, *, stages: dict[str, int], missing: dict[str, str], since: str | None = None, now: datetime | None = None
    ) -> dict[str, Any]:
        """Return the first screen of the operators' page, in one call.

        `stages`: those that can run, with the ttr of each in seconds. `missing`: those that cannot, and why. `since`:
        when today began, in ISO 8601; None: at midnight, in UTC.
        """
        moment = now and now.isoformat()
        return self._dict("giftcard_overview", repeat=True, stages=stages, missing=missing, since=since, now=moment)

    def take_wake(self, *, ticks: int = 1, catches_up: bool = False) -> bool:
        """Return whether the caller is to wake a tick now, at most once a second in the fleet.

        `ticks`: none, if so many wait for jobs. `catches_up`: the caller is a tick that leaves due jobs.
        """
        return bool(self._wire.call("giftcard_take_wake", ticks=ticks, catches_up=catches_up))

    def update_counters(self, *, limit: int) -> int:
        """Count runs and ticks that have ended since the last call, `limit` of each at most. Return how many runs."""
        return int(self._wire.call("giftcard_update_counters", repeat=True, limit=limit))

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
