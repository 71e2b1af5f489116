"""The operators' verbs, shared by the web API and the command line."""

from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import Invalid
from lib.jobs.enqueue import check_payload, circuit_for, prepare_requests
from lib.jobs.registry import Registry
from lib.jobs.schemas import BulkRequeueRequest, CircuitPage, EnqueueRequest, ErrorsQuery, Filter, Page, StuckQuery
from lib.jobs.shown import masked, masked_limit, paused_by_setting
from lib.jobs.trouble import error_group, stuck_thing
from lib.store.connect import database_name
from lib.store.store import Store
from lib.tick.bulk_requeue import BulkRequeue

Json = dict[str, Any]


class Operations:
    """The operators' verbs over a store, which the audit records, with the `reason` of those that change something."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    # Read

    def list_jobs(self, wanted: Filter, page: Page, *, reveal: bool = False) -> Json:
        """Return a page of jobs, newest first. `older` and `newer`: the cursors of the pages beside it."""
        filter_ = self._filter(wanted)
        found = self._store.list_jobs(
            filter=filter_, before=page.older, after=page.newer, limit=page.limit, **self._known()
        )
        if reveal:
            subject = f"jobs {[job['id'] for job in found['jobs']]}"
            self._store.record_reveal(subject=subject, tenant_id=filter_.get("tenant_id"), caller=self._caller)
        return found | {"jobs": [self._masked(job, reveal=reveal) for job in found["jobs"]]}

    def job(self, job_id: int, *, reveal: bool = False) -> Json:
        """Return a job, and why it waits."""
        job = self._store.job(job_id, tenant_id=self._caller.tenant_id, **self._known())
        if reveal:
            self._store.record_reveal(subject=f"job {job_id}", tenant_id=job["tenant_id"], caller=self._caller)
        return self._masked(job, reveal=reveal)

    def history(self, job_id: int, *, limit: int = 10, older: int | None = None) -> Json:
        """Return a page of the runs of a job, newest first. `older`: the cursor of the next page."""
        found = self._store.history(job_id, tenant_id=self._caller.tenant_id, limit=limit, older=older)
        return found | {"runs": [masked(run) for run in found["runs"]]}

    def stuck(self, wanted: StuckQuery) -> Json:
        """Return what does not move and why, the worst first, each with the command that helps."""
        found = self._store.stuck(**wanted.model_dump(), **self._known())
        paused = self._settings.giftcard_paused
        return found | {"stuck": [stuck_thing(thing, paused=paused) for thing in found["stuck"]]}

    def errors(self, wanted: ErrorsQuery) -> Json:
        """Return the errors of dead letters and retried jobs by stage and kind, the most frequent first."""
        since = wanted.since and wanted.since.isoformat()
        tenant_id = self._caller.only(wanted.tenant_id)
        found = self._store.errors(stage=wanted.stage, since=since, limit=wanted.limit, tenant_id=tenant_id)
        return found | {"errors": [error_group(group) for group in found["errors"]]}

    def status(self, *, probe: bool = False) -> Json:
        """Return the state of the whole system: its database, the doctor's checks, …; `probe` as for `doctor`."""
        return (
            self._state() | {"database": database_name(self._settings)} | {"doctor": self.doctor(probe=probe)["checks"]}
        )

    def doctor(self, *, probe: bool = True) -> Json:
        """Return the doctor's checks. An unreachable database is one of the findings.

        `probe`: also connect to the mail server, which takes up to 5 s.
        """
        from lib.monitoring.doctor.examine import examine

        return {"checks": examine(self._store, self._registry(), self._settings, probe=probe)}

    def overview(self) -> Json:
        """Return the first screen's data, in one call: the verdict, ticks, stages, circuits, dead letters, today."""
        from lib.monitoring.overview import read

        return read(self._store, self._registry(), self._settings)

    def _state(self) -> Json:
        registry = self._registry()
        found = self._store.status(stages=registry.ready(self._settings))
        found["dead_letters"] = [masked(job) for job in found["dead_letters"]]
        found["limits"] = [masked_limit(limit) for limit in found["limits"]]
        if self._settings.giftcard_paused:
            found["killed"] = [paused_by_setting(job) for job in found["killed"]]
        return found | {
            "stages_not_configured": registry.unready(self._settings),
            "paused_by_setting": self._settings.giftcard_paused,
        }

    def circuits(self, page: CircuitPage) -> Json:
        """Return a page of the circuits that are not closed or have recent failures, by name."""
        return self._store.list_circuits(**page.model_dump())

    def stages(self) -> Json:
        """Return each stage with its effective settings, and whether it can run; and those that cannot be loaded."""
        registry, status = self._registry(), self._state()
        paused = {row["stage"]: row for row in status["paused"]}
        rows = []
        for name, stage in sorted(registry.stages.items()):
            effective = stage.effective_settings(self._settings)
            rows.append(
                {
                    "stage": name,
                    **{name: setting.as_json() for name, setting in effective.items()},
                    "source": {name: setting.source for name, setting in effective.items()},
                    "missing_setting": stage.missing(self._settings),
                    "paused_by": paused.get(name, {}).get("by"),
                    "jobs": status["counts"].get(name, {}),
                }
            )
        return {
            "stages": rows,
            "broken_stages": dict(registry.broken),
            "all_paused_by": paused.get("*", {}).get("by"),
        }

    # Enqueue

    def enqueue(self, wanted: EnqueueRequest, *, trigger_type: str) -> Json:
        """Enqueue all of these jobs or none.

        Raises:
            Invalid: an unknown stage, or a payload that its stage does not accept.
            Forbidden: a job of a tenant that the caller may not act for.
        """
        jobs = prepare_requests(
            wanted.jobs, self._registry(), self._settings, caller=self._caller, trigger_type=trigger_type
        )
        return {"jobs": self._store.enqueue(jobs, replace=wanted.replace, caller=self._caller)}

    # Change

    def requeue(
        self, job_id: int, *, payload: Json | None = None, force: bool = False, reason: str | None = None
    ) -> Json:
        """Requeue a job, with a full set of attempts and, if given, a corrected payload."""
        if payload is None:
            return self._store.requeue(job_id, force=force, reason=reason, caller=self._caller)
        self._caller.check_payload(payload)
        name = self._store.job(job_id, tenant_id=self._caller.tenant_id, **self._known())["stage"]
        registry = self._registry()
        stage = registry.stages.get(name)
        if stage is None and registry.knows(name):
            raise Invalid(f"the stage {name} cannot be loaded, so no payload can be checked", field="stage")
        if stage is None:
            raise Invalid(f"there is no stage {name}", field="stage")
        corrected = {"circuit": circuit_for(stage, check_payload(stage, payload, self._settings)), "source": "app"}
        return self._store.requeue(
            job_id, payload=payload, **corrected, force=force, reason=reason, caller=self._caller
        )

    def requeue_jobs(
        self, wanted: BulkRequeueRequest, *, budget: float, progress: Callable[[int], None] = lambda done: None
    ) -> Json:
        """Requeue the jobs that match, in steps by id, for `budget` seconds.

        Unless the result is `done`, repeat with its `after` and the sum of `requeued` as `already`.
        """
        if not wanted.all and not wanted.filter.as_json():
            raise Invalid("an empty filter matches every dead job: set all to true to requeue them", field="filter")
        bulk = BulkRequeue(
            wanted,
            self._filter(wanted.filter),
            store=self._store,
            registry=self._registry(),
            settings=self._settings,
            caller=self._caller,
        )
        return bulk.run(budget=budget, progress=progress)

    def cancel(self, job_id: int, *, reason: str | None = None) -> Json:
        """Cancel a job: now, or when its run ends."""
        return self._store.cancel(job_id, reason=reason, caller=self._caller)

    def cancel_flow(self, tenant_id: str | None, correlation_id: str, *, reason: str | None = None) -> Json:
        """Cancel a flow: its order and its unfinished jobs. To requeue one of them reopens the order."""
        tenant_id = self._caller.tenant(tenant_id)
        return self._store.cancel_flow(tenant_id, correlation_id, reason=reason, caller=self._caller)

    def restore(self, job_id: int, *, reason: str | None = None) -> Json:
        """Restore a job from the archive, unchanged."""
        return self._store.restore(job_id, reason=reason, caller=self._caller)

    def pause(self, stage: str, *, by: str, reason: str | None) -> Json:
        """Pause a stage, or everything (`*`). `by`: the name that status shows.

        Raises:
            Invalid: there is no such stage.
        """
        if stage != "*" and not self._registry().knows(stage):
            raise Invalid(f"there is no stage {stage}", field="stage")
        return self._store.pause(stage, paused_by=by, reason=reason, caller=self._caller)

    def resume(self, stage: str, *, by: str, reason: str | None = None) -> Json:
        """Resume a paused stage, or everything (`*`)."""
        return self._store.resume(stage, resumed_by=by, reason=reason, caller=self._caller)

    def reset_circuit(self, circuit: str, *, reason: str | None = None) -> Json:
        """Close a circuit, whether or not its service works again."""
        return self._store.reset_circuit(circuit, reason=reason, caller=self._caller)

    def erase_customer(self, customer_id: int) -> Json:
        """Erase a customer's personal data from the whole database; amounts stay."""
        return self._store.erase_customer(customer_id, caller=self._caller)

    def _masked(self, job: Json, *, reveal: bool) -> Json:
        found = paused_by_setting(job) if self._settings.giftcard_paused else job
        return found if reveal else masked(found)

    def _filter(self, wanted: Filter) -> dict[str, str]:
        tenant_id = self._caller.only(wanted.tenant_id)
        return wanted.as_json() | ({} if tenant_id is None else {"tenant_id": tenant_id})

    def _known(self) -> dict[str, Any]:
        registry = self._registry()
        return {"stages": registry.ready(self._settings), "missing": registry.unready(self._settings)}
