"""Calls for schedules, by operators and by ticks."""

from typing import Any

from lib.caller import Caller
from lib.store.calls import Calls


class ScheduleCalls(Calls):
    """Documented in `supabase/schemas/`, 50 to 54."""

    def clock(self) -> str:
        """Return the time of the database's clock."""
        now: str = self._wire.call("giftcard_clock", repeat=True)
        return now

    def save_schedule(
        self,
        schedule: dict[str, Any],
        *,
        next_at: str | None,
        caller: Caller,
        schedule_id: int | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """Create a schedule, or update one at this version. Not repeated: a second call could create another."""
        arguments: dict[str, Any] = {"schedule": schedule, "next_at": next_at, "id": schedule_id, "version": version}
        return self._act("giftcard_save_schedule", caller, **arguments)

    def schedule(self, schedule_id: int, *, tenant_id: str | None) -> dict[str, Any]:
        """Return a schedule. `tenant_id`: the only tenant that the caller may see."""
        return self._dict("giftcard_show_schedule", repeat=True, id=schedule_id, tenant_id=tenant_id)

    def list_schedules(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of the schedules that match."""
        return self._dict("giftcard_list_schedules", repeat=True, **arguments)

    def occurrences(self, schedule_id: int, *, tenant_id: str | None, **page: Any) -> dict[str, Any]:
        """Return a page of a schedule's jobs, newest first."""
        return self._dict("giftcard_occurrences", repeat=True, id=schedule_id, tenant_id=tenant_id, **page)

    def schedule_history(self, schedule_id: int, *, tenant_id: str | None, **page: Any) -> dict[str, Any]:
        """Return a page of the runs of all jobs of a schedule, newest first."""
        return self._dict("giftcard_schedule_history", repeat=True, id=schedule_id, tenant_id=tenant_id, **page)

    def delete_schedule(self, schedule_id: int, *, caller: Caller) -> dict[str, Any]:
        """Delete a schedule."""
        return self._act("giftcard_delete_schedule", caller, id=schedule_id)

    def pause_schedule(self, schedule_id: int, *, paused_by: str, reason: str | None, caller: Caller) -> dict[str, Any]:
        """Pause a schedule: no occurrences from now on. `paused_by`: the name that is shown."""
        arguments = {"id": schedule_id, "paused_by": paused_by, "reason": reason}
        return self._act("giftcard_pause_schedule", caller, repeat=True, **arguments)

    def resume_schedule(self, schedule_id: int, *, version: int, next_at: str | None, caller: Caller) -> dict[str, Any]:
        """Resume a schedule."""
        return self._act("giftcard_resume_schedule", caller, id=schedule_id, version=version, next_at=next_at)

    def run_schedule(self, plan: dict[str, Any], *, caller: Caller) -> dict[str, Any]:
        """Apply one plan on request, as `enqueue_occurrences` does."""
        return self._act("giftcard_run_schedule", caller, repeat=True, plan=plan)

    def due_schedules(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Return the schedules due for planning."""
        return self._rows("giftcard_due_schedules", limit=limit)

    def enqueue_occurrences(self, planned: list[dict[str, Any]]) -> dict[str, Any]:
        """Apply plans: {jobs, paused, deleted, left}. A repeated call has no effect: the schedules have changed."""
        return self._dict("giftcard_enqueue_occurrences", repeat=True, planned=planned)

    def precision(self, *, window_seconds: float) -> list[dict[str, Any]]:
        """Return, by stage, how late runs began."""
        return self._rows("giftcard_precision", window_seconds=window_seconds)
