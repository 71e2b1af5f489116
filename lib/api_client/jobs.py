"""The client for jobs, flows, stages, circuits and ticks: the methods of `lib.operations.Operations`."""

import time
from collections.abc import Callable
from typing import Any

from lib.api_client.transport import LONG_TIMEOUT, Transport, segment
from lib.jobs.schemas import BulkRequeueRequest, CircuitPage, EnqueueRequest, ErrorsQuery, Filter, Page, StuckQuery

Json = dict[str, Any]


class JobsClient:
    """Signatures, results and errors are those of `Operations`. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    # Finding

    def list_jobs(self, wanted: Filter, page: Page, *, reveal: bool = False) -> Json:
        """Return a page of jobs."""
        return self._http.get("/api/v1/jobs", reveal=reveal, **wanted.as_json(), **page.model_dump())

    def job(self, job_id: int, *, reveal: bool = False) -> Json:
        """Return one job."""
        return self._http.get(f"/api/v1/jobs/{job_id}", reveal=reveal)

    def history(self, job_id: int, *, limit: int = 10, older: int | None = None) -> Json:
        """Return a page of the runs of a job."""
        return self._http.get(f"/api/v1/jobs/{job_id}/history", limit=limit, older=older)

    def stuck(self, wanted: StuckQuery) -> Json:
        """Return what does not move and why."""
        return self._http.get("/api/v1/jobs/stuck", **wanted.model_dump())

    def errors(self, wanted: ErrorsQuery) -> Json:
        """Return the errors by stage and kind."""
        return self._http.get("/api/v1/jobs/errors", **wanted.model_dump(mode="json"))

    def status(self, *, probe: bool = False) -> Json:
        """Return the state of the deployment; `probe` as for `doctor`."""
        return self._http.get("/api/status", probe="true" if probe else None)

    def doctor(self, *, probe: bool = True) -> Json:
        """Return the doctor's checks, also while the deployment cannot reach its database.

        `probe`: the deployment also connects to its mail server.
        """
        status, body = self._http.request("GET", "/api/status", params={"probe": "true"} if probe else None)
        if "doctor" not in body:
            raise self._http.failure(status, body)
        return {"checks": body["doctor"]}

    def overview(self) -> Json:
        """Return the first screen's data."""
        return self._http.get("/api/overview")

    def circuits(self, page: CircuitPage) -> Json:
        """Return a page of the circuits that are not closed, or have failed lately."""
        return self._http.get("/api/v1/circuits", **page.model_dump())

    def stages(self) -> Json:
        """Return each stage with its effective settings."""
        return self._http.get("/api/v1/stages")

    # Enqueueing and running

    def enqueue(self, wanted: EnqueueRequest, *, trigger_type: str) -> Json:
        """Enqueue all jobs or none. The API sets its own trigger type; `trigger_type` is not sent."""
        return self._http.post("/api/v1/jobs", wanted.model_dump(mode="json", exclude_none=True))

    def tick(
        self,
        *,
        limit: int | None,
        only_stage: str | None,
        only_job_id: int | None,
        budget: float | None,
        linger: bool,
    ) -> Json:
        """Run one tick over there and return its report."""
        body = {"limit": limit, "stage": only_stage, "job_id": only_job_id, "budget_seconds": budget, "linger": linger}
        body = {name: value for name, value in body.items() if value is not None}
        return self._http.post("/api/jobs/run", body, timeout=LONG_TIMEOUT)

    # Managing

    def requeue(
        self, job_id: int, *, payload: Json | None = None, force: bool = False, reason: str | None = None
    ) -> Json:
        """Send a job back to the queue."""
        body = {"payload": payload, "force": force} | _why(reason)
        return self._http.post(f"/api/v1/jobs/{job_id}/requeue", body)

    def requeue_jobs(
        self, wanted: BulkRequeueRequest, *, budget: float, progress: Callable[[int], None] = lambda done: None
    ) -> Json:
        """Send one request after the other until all is done, or `budget` seconds are over."""
        ends = time.monotonic() + budget
        total: Json = {"matched": 0, "requeued": 0, "done": False, "after": wanted.after, "dry_run": wanted.dry_run}
        while True:
            body = wanted.model_dump(exclude={"filter"}, exclude_none=True) | {
                "filter": wanted.filter.as_json(),
                "after": total["after"],
                "already": wanted.already + total["requeued"],
            }
            step = self._http.post("/api/v1/jobs/requeue", body, timeout=LONG_TIMEOUT)
            step["matched"] += total["matched"]
            step["requeued"] += total["requeued"]
            stuck = step["after"] == total["after"]
            total |= step
            progress(total["matched"])
            if total["done"] or "stopped_at" in total or stuck or time.monotonic() >= ends:
                return total

    def cancel(self, job_id: int, *, reason: str | None = None) -> Json:
        """Cancel a job; one that runs is asked to end with this run."""
        return self._http.post(f"/api/v1/jobs/{job_id}/cancel", _why(reason))

    def cancel_flow(self, tenant_id: str | None, correlation_id: str, *, reason: str | None = None) -> Json:
        """Cancel the jobs of a flow that have not completed."""
        return self._http.post(f"/api/v1/flows/{segment(correlation_id)}/cancel", _why(reason), tenant_id=tenant_id)

    def restore(self, job_id: int, *, reason: str | None = None) -> Json:
        """Restore a job from the archive."""
        return self._http.post(f"/api/v1/jobs/{job_id}/restore", _why(reason))

    def pause(self, stage: str, *, by: str, reason: str | None) -> Json:
        """Pause a stage, or '*' for everything."""
        return self._http.post(f"/api/v1/stages/{segment(stage)}/pause", {"by": by, "reason": reason})

    def resume(self, stage: str, *, by: str, reason: str | None = None) -> Json:
        """End a pause."""
        return self._http.post(f"/api/v1/stages/{segment(stage)}/resume", {"by": by} | _why(reason))

    def reset_circuit(self, circuit: str, *, reason: str | None = None) -> Json:
        """Close a circuit by hand."""
        return self._http.post(f"/api/v1/circuits/{segment(circuit)}/reset", _why(reason))


def _why(reason: str | None) -> Json:
    """Return the field of a body; older deployments know none."""
    return {} if reason is None else {"reason": reason}
