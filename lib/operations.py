"""What operators do, once: the web API and the command line are two doors to it."""

import time
from collections.abc import Callable
from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid, InvalidJob
from lib.jobs.enqueue import check_payload, circuit_for, prepare
from lib.jobs.schemas import BulkRequeueRequest, EnqueueRequest, Filter, JobRequest, Page
from lib.jobs.stage import Registry, Stage
from lib.store.store import Store
from lib.telemetry.redact import covered
from lib.tick.tick import run_tick

Json = dict[str, Any]

# One step of bulk work: one call, one transaction, short enough to keep no tick waiting.
_STEP = 500
# Personal data lives here.
_COVERED = ("payload", "context", "last_error", "error")


class Operations:
    """Over one store. `by` is who asks, for the traces that are kept."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, by: str) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._by = by

    # Finding

    def list_jobs(self, wanted: Filter, page: Page, *, reveal: bool = False) -> Json:
        """A page of jobs, the newest first; `older` and `newer` are the cursors to ask on with, null at the ends."""
        answer = self._store.list_jobs(
            filter=wanted.as_json(), before=page.older, after=page.newer, limit=page.limit, **self._known()
        )
        if reveal:
            self._store.record_reveal(by=self._by, subject=f"jobs {[job['id'] for job in answer['jobs']]}")
        return answer | {"jobs": [_shown(self._told(job), reveal=reveal) for job in answer["jobs"]]}

    def job(self, job_id: int, *, reveal: bool = False) -> Json:
        """One job, with why it waits."""
        job = self._store.job(job_id, **self._known())
        if reveal:
            self._store.record_reveal(by=self._by, subject=f"job {job_id}")
        return _shown(self._told(job), reveal=reveal)

    def history(self, job_id: int, *, limit: int = 10) -> Json:
        """Its runs, the newest first."""
        return {"runs": [_shown(run, reveal=False) for run in self._store.history(job_id, limit=limit)]}

    def status(self) -> Json:
        """The whole picture, with what the doctor finds."""
        return self._picture() | {"doctor": self.doctor()["checks"]}

    def doctor(self) -> Json:
        """Every check of this deployment; a database that is away is a finding too."""
        from lib.monitoring.doctor.examine import examine

        return {"checks": examine(self._store, self._registry(), self._settings)}

    def _picture(self) -> Json:
        registry = self._registry()
        answer = self._store.status(stages=registry.ready(self._settings))
        answer["dead_letters"] = [_shown(job, reveal=False) for job in answer["dead_letters"]]
        return answer | {
            "stages_not_configured": registry.unready(self._settings),
            "paused_by_setting": self._settings.giftcard_paused,
        }

    def circuits(self) -> Json:
        """Those that are not closed, or have failed lately."""
        return {"circuits": self._picture()["circuits"]}

    def stages(self) -> Json:
        """Each stage with its rules in force, and whether it runs."""
        registry, status = self._registry(), self._picture()
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

    # Enqueueing

    def enqueue(self, wanted: EnqueueRequest, *, trigger_type: str) -> Json:
        """All of them or none."""
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

    # Mending

    def requeue(self, job_id: int, *, payload: Json | None = None, force: bool = False) -> Json:
        """Back to the queue, with a whole new set of attempts."""
        if payload is None:
            return self._store.requeue(job_id, force=force)
        stage = self._checked(self._store.job(job_id, **self._known())["stage"], payload)
        circuit = circuit_for(stage, payload, self._settings)
        return self._store.requeue(job_id, payload=payload, circuit=circuit, force=force)

    def requeue_jobs(
        self, wanted: BulkRequeueRequest, *, budget: float, progress: Callable[[int], None] = lambda done: None
    ) -> Json:
        """In steps, up by id, for `budget` seconds. Not done: go on with `after` and `already`."""
        if not wanted.all and not wanted.filter.as_json():
            raise Invalid("an empty filter means every dead job: ask for all of them if that is meant", field="filter")
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
        """Requeues one and runs it now; what to answer if the rest shall not follow."""
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
            "stopped_because": f"job {job_id} went first and is {status}, not completed",
        }

    def cancel(self, job_id: int) -> Json:
        """Now, or by a wish if it runs."""
        return self._store.cancel(job_id)

    def cancel_flow(self, tenant_id: str, correlation_id: str) -> Json:
        """What is left of a flow."""
        return self._store.cancel_flow(tenant_id, correlation_id)

    def restore(self, job_id: int) -> Json:
        """From the archive, as it was."""
        return self._store.restore(job_id)

    def pause(self, stage: str, *, by: str, reason: str | None) -> Json:
        """A stage that this code knows, or '*' for everything."""
        if stage != "*" and stage not in self._registry().stages:
            raise Invalid(f"there is no stage {stage}", field="stage")
        return self._store.pause(stage, by=by, reason=reason)

    def resume(self, stage: str, *, by: str) -> Json:
        """The end of a pause."""
        return self._store.resume(stage, by=by)

    def reset_circuit(self, circuit: str) -> Json:
        """Closed by a person, whatever the vendor does."""
        return self._store.reset_circuit(circuit, by=self._by)

    def erase_customer(self, customer_id: int) -> Json:
        """A person's data everywhere in the database; the sums stay."""
        return self._store.erase_customer(customer_id, by=self._by)

    def _told(self, job: Json) -> Json:
        return _held(job) if self._settings.giftcard_paused else job

    def _known(self) -> dict[str, Any]:
        registry = self._registry()
        return {"stages": registry.ready(self._settings), "missing": registry.unready(self._settings)}

    def _checked(self, name: str, payload: Json) -> Stage:
        """The stage of this name, if it takes the payload."""
        stage = self._registry().stages.get(name)
        if stage is None:
            raise Invalid(f"there is no stage {name}", field="stage")
        check_payload(stage, payload, self._settings)
        return stage


def _row(job: JobRequest) -> Json:
    row = job.model_dump(exclude_none=True)
    if job.scheduled_at is not None:
        row["scheduled_at"] = job.scheduled_at.isoformat()
    return row


def _held(job: Json) -> Json:
    """What GIFTCARD_PAUSED holds: the database does not know of it."""
    if job["status"] != "queued":
        return job
    text = "GIFTCARD_PAUSED holds everything"
    return job | {"waiting_for": {"reason": "all_paused", "by": "GIFTCARD_PAUSED", "text": text}}


def _shown(row: Json, *, reveal: bool) -> Json:
    if reveal:
        return row
    return {name: covered(value) if name in _COVERED else value for name, value in row.items()}
