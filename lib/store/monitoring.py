"""The calls about watching: metrics and alerts."""

from typing import Any

from lib.store.calls import Calls


class WatchCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/70_metrics.sql`, `71_alerts.sql`."""

    def metrics(self, *, stages: dict[str, int]) -> dict[str, Any]:
        """All numbers of a scrape."""
        return self._dict("giftcard_metrics", repeat=True, stages=stages)

    def check_alerts(self, *, stages: dict[str, int], late_seconds: float, repeat_hours: float) -> list[dict[str, Any]]:
        """What operators shall be told now. Not repeated on a lost connection: the second would find it taken."""
        answer: list[dict[str, Any]] = self._wire.call(
            "giftcard_check_alerts", stages=stages, late_seconds=late_seconds, repeat_hours=repeat_hours
        )
        return answer

    def record_notifications(self, notified: list[dict[str, Any]]) -> None:
        """They were."""
        self._wire.call("giftcard_record_notifications", repeat=True, notified=notified)

    def active_alerts(self) -> list[dict[str, Any]]:
        """What is wrong, as far as it was found."""
        return self._rows("giftcard_active_alerts")
