"""The calls about schedules: by people, and by ticks."""

from typing import Any

from lib.store.calls import Calls


class ScheduleCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/`, 60 and 64 to 66."""

    def clock(self) -> str:
        """The database's clock."""
        now: str = self._wire.call("giftcard_clock", repeat=True)
        return now

    def save_schedule(
        self,
        schedule: dict[str, Any],
        *,
        next_at: str | None,
        schedule_id: int | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """A new one, or that one if it is still at this version. Not repeated: the second could make another."""
        return self._dict("giftcard_save_schedule", schedule=schedule, next_at=next_at, id=schedule_id, version=version)

    def schedule(self, schedule_id: int) -> dict[str, Any]:
        """One, as it stands."""
        return self._dict("giftcard_show_schedule", repeat=True, id=schedule_id)

    def list_schedules(self, **arguments: Any) -> dict[str, Any]:
        """A page of those that fit."""
        return self._dict("giftcard_list_schedules", repeat=True, **arguments)

    def occurrences(self, schedule_id: int, *, limit: int) -> list[dict[str, Any]]:
        """Its jobs, the newest first."""
        return self._rows("giftcard_occurrences", id=schedule_id, limit=limit)

    def delete_schedule(self, schedule_id: int) -> dict[str, Any]:
        """For good."""
        return self._dict("giftcard_delete_schedule", id=schedule_id)

    def pause_schedule(self, schedule_id: int, *, by: str, reason: str | None) -> dict[str, Any]:
        """No occurrences from now on."""
        return self._dict("giftcard_pause_schedule", repeat=True, id=schedule_id, by=by, reason=reason)

    def resume_schedule(self, schedule_id: int, *, version: int, next_at: str | None) -> dict[str, Any]:
        """The end of a pause."""
        return self._dict("giftcard_resume_schedule", id=schedule_id, version=version, next_at=next_at)

    def due_schedules(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Those to look at now, for `lib.schedules.planner`."""
        return self._rows("giftcard_due_schedules", limit=limit)

    def enqueue_occurrences(self, planned: list[dict[str, Any]]) -> dict[str, Any]:
        """Carries plans out: {jobs, paused, deleted, left}. A second time it finds the schedules changed."""
        return self._dict("giftcard_enqueue_occurrences", repeat=True, planned=planned)

    def precision(self, *, window_seconds: float) -> list[dict[str, Any]]:
        """How long after its time each run began, by stage."""
        return self._rows("giftcard_precision", window_seconds=window_seconds)
