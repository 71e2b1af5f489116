"""The calls that operators cause: jobs found, mended, enqueued; stages, circuits, customers."""

from typing import Any

from lib.store.calls import Calls


class OperatorCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/`, from 20 and 40 on."""

    def enqueue(self, jobs: list[dict[str, Any]], *, replace: bool = False) -> list[dict[str, Any]]:
        """Enqueue prepared jobs (`lib.jobs.enqueue`). Return the id and status of each, and whether it was created."""
        enqueued: list[dict[str, Any]] = self._wire.call("giftcard_enqueue", repeat=True, jobs=jobs, replace=replace)
        return enqueued

    def requeue(
        self,
        job_id: int,
        *,
        payload: dict[str, Any] | None = None,
        circuit: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """`circuit`: that of the payload. Not repeated on a lost connection: the second could meet the job running."""
        return self._dict("giftcard_requeue", job_id=job_id, payload=payload, force=force, circuit=circuit)

    def cancel(self, job_id: int) -> dict[str, Any]:
        """Queued and error at once, running by a wish."""
        return self._dict("giftcard_cancel", job_id=job_id)

    def job(self, job_id: int, *, stages: dict[str, int], missing: dict[str, str]) -> dict[str, Any]:
        """A job, with why it waits."""
        return self._dict("giftcard_show_job", repeat=True, job_id=job_id, stages=stages, missing=missing)

    def history(self, job_id: int, *, limit: int) -> list[dict[str, Any]]:
        """The job's runs, the newest first."""
        answer: list[dict[str, Any]] = self._wire.call("giftcard_history", repeat=True, job_id=job_id, limit=limit)
        return answer

    def list_jobs(self, **arguments: Any) -> dict[str, Any]:
        """A page of jobs that fit a filter."""
        return self._dict("giftcard_list_jobs", repeat=True, **arguments)

    def requeue_jobs(self, **arguments: Any) -> dict[str, Any]:
        """One step of requeueing by filter. Not repeated on a lost connection: nobody knows which were queued."""
        return self._dict("giftcard_requeue_jobs", **arguments)

    def cancel_flow(self, tenant_id: str, correlation_id: str) -> dict[str, Any]:
        """What is left of a flow."""
        return self._dict("giftcard_cancel_flow", tenant_id=tenant_id, correlation_id=correlation_id)

    def pause(self, stage: str, *, by: str, reason: str | None) -> dict[str, Any]:
        """A stage, or everything ('*')."""
        return self._dict("giftcard_pause", stage=stage, by=by, reason=reason)

    def resume(self, stage: str, *, by: str) -> dict[str, Any]:
        """The end of a pause."""
        return self._dict("giftcard_resume", stage=stage, by=by)

    def reset_circuit(self, circuit: str, *, by: str) -> dict[str, Any]:
        """Closed by a person."""
        return self._dict("giftcard_reset_circuit", circuit=circuit, by=by)

    def record_reveal(self, *, by: str, subject: str) -> None:
        """Personal data was shown in clear."""
        self._wire.call("giftcard_record_reveal", by=by, subject=subject)

    def find_customer(self, tenant_id: str, **known: str) -> int:
        """The customer with this external_id, of this correlation_id, or without an external id and with this email."""
        found = self._dict("giftcard_find_customer", repeat=True, tenant_id=tenant_id, **known)
        return int(found["id"])

    def erase_customer(self, customer_id: int, *, by: str) -> dict[str, Any]:
        """A person's data, everywhere."""
        return self._dict("giftcard_erase_customer", customer_id=customer_id, by=by)

    def flow(self, tenant_id: str, correlation_id: str) -> dict[str, Any]:
        """Where an order stands."""
        return self._dict("giftcard_flow", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id)
