"""The operators' verbs, shared by the web API and the command line."""

import time
from collections.abc import Callable
from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid, InvalidJob
from lib.jobs.enqueue import check_payload, circuit_for, prepare
from lib.jobs.schemas import BulkRequeueRequest, CircuitPage, EnqueueRequest, Filter, JobRequest, Page
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry.redact import covered
from lib.tick.tick import check_allowed, run_tick

Json = dict[str, Any]

# Jobs per step of a bulk requeue: one call and one transaction, short enough not to block ticks.
_STEP = 500
# Columns that may hold personal data.
_MASKED = ("payload", "context", "last_error", "error")


class Operations:
    """The operators' verbs over a store. `by`: the operator, recorded in the audit log."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, by: str) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._by = by

    # Read

    def list_jobs(self, wanted: Filter, page: Page, *, reveal: bool = False) -> Json:
        """Return a page of jobs, newest first. `older` and `newer`: the cursors of the pages beside it."""
        found = self._store.list_jobs(
            filter=wanted.as_json(), before=page.older, after=page.newer, limit=page.limit, **self._known()
        )
        if reveal:
            self._store.record_reveal(by=self._by, subject=f"jobs {[job['id'] for job in found['jobs']]}")
        return found | {"jobs": [self._masked(job, reveal=reveal) for job in found["jobs"]]}

    def job(self, job_id: int, *, reveal: bool = False) -> Json:
        """Return a job, and why it waits."""
        job = self._store.job(job_id, **self._known())
        if reveal:
            self._store.record_reveal(by=self._by, subject=f"job {job_id}")
        return self._masked(job, reveal=reveal)

    def history(self, job_id: int, *, limit: int = 10, older: int | None = None) -> Json:
        """Return a page of the runs of a job, newest first. `older`: the cursor of the next page."""
        found = self._store.history(job_id, limit=limit, older=older)
        return found | {"runs": [_masked(run) for run in found["runs"]]}

    def status(self, *, probe: bool = False) -> Json:
        """Return the state of the whole system, with the doctor's checks; `probe` as for `doctor`."""
        return self._state() | {"doctor": self.doctor(probe=probe)["checks"]}

    def doctor(self, *, probe: bool = True) -> Json:
        """Return the doctor's checks. An unreachable database is one of the findings.

        `probe`: also connect to the mail server, which takes up to 5 s.
        """
        from lib.monitoring.doctor.examine import examine

        return {"checks": examine(self._store, self._registry(), self._settings, probe=probe)}

    def _state(self) -> Json:
        registry = self._registry()
        found = self._store.status(stages=registry.ready(self._settings))
        found["dead_letters"] = [_masked(job) for job in found["dead_letters"]]
        return found | {
            "stages_not_configured": registry.unready(self._settings),
            "paused_by_setting": self._settings.giftcard_paused,
        }

    def circuits(self, page: CircuitPage) -> Json:
        """Return a page of the circuits that are not closed or have recent failures, by name."""
        return self._store.list_circuits(**page.model_dump())

    def stages(self) -> Json:
        """Return each stage with its effective settings, and whether it can run."""
        registry, status = self._registry(), self._state()
        paused = {row["stage"]: row for row in status["paused"]}
        rows = []
        for name, stage in sorted(registry.stages.items()):
            effective = stage.effective_settings(self._settings)
            rows.append(
                {
                    "stage": name,
                    **{name: setting.value for name, setting in effective.items()},
                    "source": {name: setting.source for name, setting in effective.items()},
                    "missing_setting": stage.needs(self._settings),
                    "paused_by": paused.get(name, {}).get("by"),
                    "jobs": status["counts"].get(name, {}),
                }
            )
        return {"stages": rows, "all_paused_by": paused.get("*", {}).get("by")}

    # Enqueue

    def enqueue(self, wanted: EnqueueRequest, *, trigger_type: str) -> Json:
        """Enqueue all of these jobs or none.

        Raises:
            Invalid: an unknown stage, or a payload that its stage does not accept.
        """
        registry = self._registry()
        for index, job in enumerate(wanted.jobs):
            if job.stage not in registry.stages:
                raise Invalid(f"there is no stage {job.stage}", field=f"jobs.{index}.stage")
        rows = [_row(job) | {"trigger_type": trigger_type} for job in wanted.jobs]
        try:
            jobs = prepare(rows, registry, self._settings)
        except InvalidJob as error:
            raise Invalid(str(error), field=f"jobs.{error.index}.{error.field}") from None
        return {"jobs": self._store.enqueue(jobs, replace=wanted.replace)}

    # Change

    def requeue(self, job_id: int, *, payload: Json | None = None, force: bool = False) -> Json:
        """Requeue a job, with a full set of attempts and, if given, a corrected payload."""
        if payload is None:
            return self._store.requeue(job_id, force=force)
        name = self._store.job(job_id, **self._known())["stage"]
        stage = self._registry().stages.get(name)
        if stage is None:
            raise Invalid(f"there is no stage {name}", field="stage")
        circuit = circuit_for(stage, check_payload(stage, payload, self._settings))
        return self._store.requeue(job_id, payload=payload, circuit=circuit, force=force)

    def requeue_jobs(
        self, wanted: BulkRequeueRequest, *, budget: float, progress: Callable[[int], None] = lambda done: None
    ) -> Json:
        """Requeue the jobs that match, in steps by id, for `budget` seconds.

        Unless the result is `done`, repeat with its `after` and the sum of `requeued` as `already`.
        """
        if not wanted.all and not wanted.filter.as_json():
            raise Invalid("an empty filter matches every dead job: set all to true to requeue them", field="filter")
        ends = time.monotonic() + budget
        total: Json = {"matched": 0, "requeued": 0, "done": False, "after": wanted.after, "dry_run": wanted.dry_run}
        if wanted.slowly and not wanted.dry_run and not wanted.already:
            first = self._first_alone(wanted, total)
            if first is not None:
                return first
        while not total["done"]:
            step = self._step(wanted, after=total["after"], spread_from=wanted.already + total["requeued"])
            total["matched"] += step["matched"]
            total["requeued"] += step["requeued"]
            total["after"] = step["last_id"] or total["after"]
            total["done"] = step["done"]
            progress(total["matched"])
            if time.monotonic() >= ends:
                break
        return total

    def _step(self, wanted: BulkRequeueRequest, *, after: int, spread_from: int, limit: int = _STEP) -> Json:
        seconds = 60 / wanted.per_minute if wanted.slowly else 0
        return self._store.requeue_jobs(
            filter=wanted.filter.as_json(),
            after=after,
            limit=limit,
            dry_run=wanted.dry_run,
            spread_seconds=seconds,
            first_in=seconds * spread_from,
        )

    def _first_alone(self, wanted: BulkRequeueRequest, total: Json) -> Json | None:
        """Requeue one job and run it now. Return the result if the others must not follow, None if they may."""
        check_allowed(self._settings)
        step = self._step(wanted, after=wanted.after, spread_from=0, limit=1)
        total |= {"matched": step["matched"], "requeued": step["requeued"], "after": step["last_id"] or wanted.after}
        if not step["ids"]:
            return total | {"done": step["done"]}
        job_id = step["ids"][0]
        run_tick(
            self._store, self._registry(), self._settings, source="requeue", limit=1, linger=False, only_job_id=job_id
        )
        status = self.job(job_id)["status"]
        if status == "completed":
            return None
        return total | {
            "stopped_at": job_id,
            "stopped_because": f"job {job_id} ran first and is {status}, not completed",
        }

    def cancel(self, job_id: int) -> Json:
        """Cancel a job: now, or when its run ends."""
        return self._store.cancel(job_id)

    def cancel_flow(self, tenant_id: str, correlation_id: str) -> Json:
        """Cancel a flow: its order and its unfinished jobs. To requeue one of them reopens the order."""
        return self._store.cancel_flow(tenant_id, correlation_id)

    def restore(self, job_id: int) -> Json:
        """Restore a job from the archive, unchanged."""
        return self._store.restore(job_id)

    def pause(self, stage: str, *, by: str, reason: str | None) -> Json:
        """Pause a stage, or everything (`*`).

        Raises:
            Invalid: there is no such stage.
        """
        if stage != "*" and stage not in self._registry().stages:
            raise Invalid(f"there is no stage {stage}", field="stage")
        return self._store.pause(stage, by=by, reason=reason)

    def resume(self, stage: str, *, by: str) -> Json:
        """Resume a paused stage, or everything (`*`)."""
        return self._store.resume(stage, by=by)

    def reset_circuit(self, circuit: str) -> Json:
        """Close a circuit, whether or not its service works again."""
        return self._store.reset_circuit(circuit, by=self._by)

    def erase_customer(self, customer_id: int) -> Json:
        """Erase a customer's personal data from the whole database; amounts stay."""
        return self._store.erase_customer(customer_id, by=self._by)

    def _masked(self, job: Json, *, reveal: bool) -> Json:
        found = _paused_by_setting(job) if self._settings.giftcard_paused else job
        return found if reveal else _masked(found)

    def _known(self) -> dict[str, Any]:
        registry = self._registry()
        return {"stages": registry.ready(self._settings), "missing": registry.unready(self._settings)}


def _row(job: JobRequest) -> Json:
    row = job.model_dump(exclude_none=True)
    if job.scheduled_at is not None:
        row["scheduled_at"] = job.scheduled_at.isoformat()
    return row


def _paused_by_setting(job: Json) -> Json:
    """Replace the reason why a queued job waits: the database does not know GIFTCARD_PAUSED."""
    if job["status"] != "queued":
        return job
    text = "everything is paused by GIFTCARD_PAUSED"
    return job | {"waiting_for": {"reason": "all_paused", "by": "GIFTCARD_PAUSED", "text": text}}


def _masked(row: Json) -> Json:
    return {name: covered(value) if name in _MASKED else value for name, value in row.items()}
