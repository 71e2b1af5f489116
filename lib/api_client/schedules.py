"""What `lib.schedules.service` does, done by a deployment through its API."""

from typing import Any

from lib.api_client.jobs import RemoteOperations
from lib.schedules.schemas import ScheduleFilter, SchedulePatch, ScheduleRequest

Json = dict[str, Any]

_PATH = "/api/v1/schedules"


class RemoteScheduling(RemoteOperations):
    """The methods of `Scheduling`, their answers and refusals."""

    def create(self, wanted: ScheduleRequest) -> Json:
        """A new schedule."""
        return self._post(_PATH, _sent(wanted))

    def show(self, schedule_id: int, *, reveal: bool = False) -> Json:
        """One."""
        return self._get(f"{_PATH}/{schedule_id}", reveal)

    def find(self, wanted: ScheduleFilter) -> Json:
        """A page of them."""
        return self._get(_PATH, **wanted.model_dump(exclude_none=True))

    def change(self, schedule_id: int, patch: SchedulePatch) -> Json:
        """What is given."""
        return self._call("PATCH", f"{_PATH}/{schedule_id}", json=_sent(patch))

    def delete(self, schedule_id: int) -> Json:
        """For good."""
        return self._call("DELETE", f"{_PATH}/{schedule_id}")

    def pause_schedule(self, schedule_id: int, *, by: str, reason: str | None) -> Json:
        """No occurrences until it is resumed."""
        return self._post(f"{_PATH}/{schedule_id}/pause", {"by": by, "reason": reason})

    def resume_schedule(self, schedule_id: int) -> Json:
        """On again."""
        return self._post(f"{_PATH}/{schedule_id}/resume")

    def run(self, schedule_id: int) -> Json:
        """One occurrence now."""
        return self._post(f"{_PATH}/{schedule_id}/run")

    def occurrences(self, schedule_id: int, *, limit: int = 10) -> Json:
        """Its jobs."""
        return self._get(f"{_PATH}/{schedule_id}/occurrences", limit=limit)

    def precision(self, *, window_seconds: float) -> Json:
        """How late runs began."""
        return self._get("/api/v1/precision", window_seconds=window_seconds)


def _sent(wanted: SchedulePatch) -> Json:
    return wanted.model_dump(mode="json", exclude_unset=True)
