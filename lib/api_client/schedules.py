"""The client for schedules: the methods of `lib.schedules.service.Scheduling`."""

from typing import Any

from lib.api_client.transport import Transport
from lib.schedules.schemas import ScheduleFilter, SchedulePatch, ScheduleRequest

Json = dict[str, Any]

_PATH = "/api/v1/schedules"


class SchedulesClient:
    """Signatures, results and errors are those of `Scheduling`."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def create(self, request: ScheduleRequest) -> Json:
        """Create a schedule."""
        return self._http.post(_PATH, request.model_dump(mode="json", exclude_unset=True))

    def show(self, schedule_id: int, *, reveal: bool = False) -> Json:
        """Return one schedule."""
        return self._http.get(f"{_PATH}/{schedule_id}", reveal=reveal)

    def find(self, query: ScheduleFilter) -> Json:
        """Return a page of schedules."""
        return self._http.get(_PATH, **query.model_dump())

    def update(self, schedule_id: int, patch: SchedulePatch) -> Json:
        """Update the given fields."""
        return self._http.patch(f"{_PATH}/{schedule_id}", patch.model_dump(mode="json", exclude_unset=True))

    def delete(self, schedule_id: int) -> Json:
        """Delete a schedule; its jobs stay."""
        return self._http.delete(f"{_PATH}/{schedule_id}")

    def pause(self, schedule_id: int, *, by: str, reason: str | None) -> Json:
        """Pause a schedule: no occurrences until it is resumed."""
        return self._http.post(f"{_PATH}/{schedule_id}/pause", {"by": by, "reason": reason})

    def resume(self, schedule_id: int) -> Json:
        """Resume a schedule from its next time on."""
        return self._http.post(f"{_PATH}/{schedule_id}/resume")

    def run(self, schedule_id: int) -> Json:
        """Enqueue one occurrence now."""
        return self._http.post(f"{_PATH}/{schedule_id}/run")

    def occurrences(self, schedule_id: int, *, limit: int = 10, older: str | None = None) -> Json:
        """Return a page of the jobs of a schedule, the newest first."""
        return self._http.get(f"{_PATH}/{schedule_id}/occurrences", limit=limit, older=older)

    def history(self, schedule_id: int, *, limit: int = 10, older: str | None = None) -> Json:
        """Return a page of the runs of all jobs of a schedule, the newest first."""
        return self._http.get(f"{_PATH}/{schedule_id}/history", limit=limit, older=older)

    def precision(self, *, window_seconds: float) -> Json:
        """Return by stage how long after its time each run began."""
        return self._http.get("/api/v1/precision", window_seconds=window_seconds)
