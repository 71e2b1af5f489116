"""Calls for operators: jobs, stages, circuits, customers."""

from typing import Any

from lib.caller import Caller
from lib.store.calls import Calls


class OperatorCalls(Calls):
    """Documented in `supabase/schemas/`: 12 (circuits), 19 (audit), 20, 30 to 33, 36 to 39, 42, 57 and 58.

    `caller`, `reason`: who acts and why, recorded in the audit; a row of another tenant than theirs does not exist for
    them.
    """

    def enqueue(
        self, jobs: list[dict[str, Any]], *, replace: bool = False, caller: Caller | None = None
    ) -> list[dict[str, Any]]:
        """Enqueue prepared jobs (`lib.jobs.enqueue`). Return the id and status of each, and whether it was created.

        `caller` None: no act of an operator.
        """
        by = caller and caller.name
        enqueued: list[dict[str, Any]] = self._wire.call(
            "giftcard_enqueue", repeat=True, jobs=jobs, replace=replace, by=by, commits=True
        )
        return enqueued

    def enqueue_and_wake(self, jobs: list[dict[str, Any]], *, replace: bool, caller: Caller | None) -> dict[str, Any]:
        """Enqueue as above. Return the `jobs`, and whether to `wake` a tick."""
        enqueued: dict[str, Any] = {"jobs": jobs, "replace": replace, "by": caller and caller.name, "commits": True}
        return self._dict("giftcard_enqueue_and_wake", repeat=True, **enqueued)

    def requeue(
        self,
        job_id: int,
        *,
        caller: Caller,
        payload: dict[str, Any] | None = None,
        circuit: str | None = None,
        source: str | None = None,
        force: bool = False,
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Requeue a job. `circuit`, `source`: those of the payload.

        Not repeated on a lost connection: the job may already run.
        """
        payload_of: dict[str, Any] = {"payload": payload, "circuit": circuit, "source": source}
        return self._act("giftcard_requeue", caller, job_id=job_id, force=force, reason=reason, **payload_of)

    def cancel(self, job_id: int, *, caller: Caller, reason: str | None = None) -> dict[str, Any]:
        """Cancel a job: at once if queued or in error; a running one by request."""
        return self._act("giftcard_cancel", caller, job_id=job_id, reason=reason)

    def job(self, job_id: int, *, tenant_id: str | None, **known: Any) -> dict[str, Any]:
        """Return a job, with the reason why it waits. `tenant_id`: the only tenant that the caller may see."""
        return self._dict("giftcard_show_job", repeat=True, job_id=job_id, tenant_id=tenant_id, **known)

    def history(self, job_id: int, *, tenant_id: str | None, **page: int | None) -> dict[str, Any]:
        """Return a page of a job's runs, newest first. `older`: the cursor of the page before."""
        return self._dict("giftcard_history", repeat=True, job_id=job_id, tenant_id=tenant_id, **page)

    def job_story(self, job_id: int, *, tenant_id: str | None, **arguments: Any) -> dict[str, Any]:
        """Return a job with a page of its runs, its flow's jobs and its effects."""
        return self._dict("giftcard_job_story", repeat=True, job_id=job_id, tenant_id=tenant_id, **arguments)

    def list_jobs(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of the jobs that match a filter."""
        return self._dict("giftcard_list_jobs", repeat=True, **arguments)

    def stuck(self, **arguments: Any) -> dict[str, Any]:
        """Return what does not move and why, the worst first."""
        return self._dict("giftcard_stuck", repeat=True, **arguments)

    def errors(self, **arguments: Any) -> dict[str, Any]:
        """Return the errors of dead letters and retried jobs, and of runs since a time, by stage and kind."""
        return self._dict("giftcard_errors", repeat=True, **arguments)

    def requeue_jobs(self, *, caller: Caller, **arguments: Any) -> dict[str, Any]:
        """Requeue one batch of the jobs that match. Not repeated on a lost connection: what was requeued is unknown."""
        return self._dict("giftcard_requeue_jobs", by=caller.name, **arguments)

    def cancel_flow(
        self, tenant_id: str, correlation_id: str, *, caller: Caller, reason: str | None = None
    ) -> dict[str, Any]:
        """Cancel the unfinished jobs of a flow."""
        flow: dict[str, Any] = {"tenant_id": tenant_id, "correlation_id": correlation_id}
        return self._dict("giftcard_cancel_flow", reason=reason, by=caller.name, **flow)

    def pause(self, stage: str, *, paused_by: str, reason: str | None, caller: Caller) -> dict[str, Any]:
        """Pause a stage, or all ('*'). `paused_by`: the name that status shows."""
        return self._dict("giftcard_pause", stage=stage, paused_by=paused_by, reason=reason, by=caller.name)

    def resume(self, stage: str, *, resumed_by: str, caller: Caller, reason: str | None = None) -> dict[str, Any]:
        """Resume a stage, or all ('*')."""
        return self._dict("giftcard_resume", stage=stage, resumed_by=resumed_by, reason=reason, by=caller.name)

    def list_circuits(self, *, older: str | None, limit: int) -> dict[str, Any]:
        """Return a page of the circuits that are not closed or have recent failures, by name."""
        return self._dict("giftcard_list_circuits", repeat=True, older=older, limit=limit)

    def reset_circuit(self, circuit: str, *, caller: Caller, reason: str | None = None) -> dict[str, Any]:
        """Close a circuit."""
        return self._dict("giftcard_reset_circuit", circuit=circuit, reason=reason, by=caller.name)

    def record_reveal(self, *, subject: str, tenant_id: str | None, caller: Caller, reason: str | None = None) -> None:
        """Record in the audit that personal data of a tenant (None: of several) was revealed, and why."""
        self._wire.call("giftcard_record_reveal", subject=subject, reason=reason, by=caller.name, tenant_id=tenant_id)

    def list_audit(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of the acts of operators, newest first."""
        return self._dict("giftcard_list_audit", repeat=True, **arguments)

    def find_customer(self, tenant_id: str, **known: str) -> int:
        """Return the id of the customer with this external_id, correlation_id, or (without an external id) email."""
        found = self._dict("giftcard_find_customer", repeat=True, tenant_id=tenant_id, **known)
        return int(found["id"])

    def erase_customer(self, customer_id: int, *, caller: Caller) -> dict[str, Any]:
        """Erase a customer's personal data everywhere."""
        return self._act("giftcard_erase_customer", caller, customer_id=customer_id)

    def flow(self, tenant_id: str, correlation_id: str, **page: int | None) -> dict[str, Any]:
        """Return the state of an order, with a page of its jobs (`older`, `limit`)."""
        return self._dict("giftcard_flow", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id, **page)

    # Operations on many jobs

    def preview_operation(self, *, caller: Caller, **wanted: Any) -> dict[str, Any]:
        """Count what an operation would change, up to 10,000 jobs."""
        return self._dict("giftcard_preview_operation", repeat=True, tenant_id=caller.tenant_id, **wanted)

    def create_operation(self, *, idempotency_key: str, caller: Caller, **wanted: Any) -> dict[str, Any]:
        """Create an operation, which ticks carry out. Called again with its key it returns the same one."""
        wanted |= {"idempotency_key": idempotency_key}
        return self._act("giftcard_create_operation", caller, repeat=True, **wanted)

    def show_operation(self, operation_id: int, *, tenant_id: str | None) -> dict[str, Any]:
        """Return an operation with its progress."""
        return self._dict("giftcard_show_operation", repeat=True, id=operation_id, tenant_id=tenant_id)

    def list_operations(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of operations, newest first."""
        return self._dict("giftcard_list_operations", repeat=True, **arguments)

    def stop_operation(self, operation_id: int, *, caller: Caller) -> dict[str, Any]:
        """Stop an operation; what it has changed stays."""
        return self._act("giftcard_stop_operation", caller, repeat=True, id=operation_id)

    def step_operation(self, *, limit: int, skip: tuple[int, ...]) -> dict[str, Any] | None:
        """Carry out one step of an operation that is not in `skip`. Return where it stands, None if none is left.

        Not repeated on a lost connection, only so that the caller's time limit holds: a step that was done is not
        done again.
        """
        step: dict[str, Any] | None = self._wire.call("giftcard_step_operation", limit=limit, skip=skip)
        return step

    # Pruning and the archive

    def prune(self, limits: dict[str, str | None], *, limit: int, dry_run: bool) -> dict[str, Any]:
        """Prune one batch. `limits`: how long each kind is retained, like {"jobs": "30 days"}; None: forever."""
        return self._dict("giftcard_prune", repeat=True, limit=limit, dry_run=dry_run, **limits)

    def restore(self, job_id: int, *, caller: Caller, reason: str | None = None) -> dict[str, Any]:
        """Restore a job from the archive. Not repeated on a lost connection: a second call would not find it."""
        return self._act("giftcard_restore_job", caller, job_id=job_id, reason=reason)
