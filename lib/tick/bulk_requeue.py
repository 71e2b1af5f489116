"""The requeue of all jobs that match a filter, in steps by id; slowly: the first job alone, the others at a rate."""

import time
from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.jobs.schemas import BulkRequeueRequest
from lib.store.store import Store
from lib.tick.tick import check_allowed, run_tick

Json = dict[str, Any]

# Jobs per step: one call and one transaction, short enough not to block ticks.
_STEP = 500


class BulkRequeue:
    """A bulk requeue by a caller. `filter_`: that of `wanted`, limited to what the caller may change."""

    def __init__(
        self,
        wanted: BulkRequeueRequest,
        filter_: dict[str, str],
        *,
        store: Store,
        registry: Registry,
        settings: Settings,
        caller: Caller,
    ) -> None:
        self._wanted = wanted
        self._filter = filter_
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def run(self, *, budget: float, progress: Callable[[int], None]) -> Json:
        """Requeue for `budget` seconds. Return what `lib.operations.Operations.requeue_jobs` does."""
        wanted = self._wanted
        ends = time.monotonic() + budget
        total: Json = {"matched": 0, "requeued": 0, "done": False, "after": wanted.after, "dry_run": wanted.dry_run}
        if wanted.slowly and not wanted.dry_run and not wanted.already:
            first = self._first_alone(total)
            if first is not None:
                return first
        while not total["done"]:
            step = self._step(after=total["after"], spread_from=wanted.already + total["requeued"])
            total["matched"] += step["matched"]
            total["requeued"] += step["requeued"]
            total["after"] = step["last_id"] or total["after"]
            total["done"] = step["done"]
            progress(total["matched"])
            if time.monotonic() >= ends:
                break
        return total

    def _step(self, *, after: int, spread_from: int, limit: int = _STEP) -> Json:
        seconds = 60 / self._wanted.per_minute if self._wanted.slowly else 0
        return self._store.requeue_jobs(
            filter=self._filter,
            after=after,
            limit=limit,
            dry_run=self._wanted.dry_run,
            spread_seconds=seconds,
            first_in=seconds * spread_from,
            reason=self._wanted.reason,
            caller=self._caller,
        )

    def _first_alone(self, total: Json) -> Json | None:
        """Requeue one job and run it now. Return the result if the others must not follow, None if they may."""
        check_allowed(self._settings)
        step = self._step(after=self._wanted.after, spread_from=0, limit=1)
        last_id = step["last_id"] or self._wanted.after
        total |= {"matched": step["matched"], "requeued": step["requeued"], "after": last_id}
        if not step["ids"]:
            return total | {"done": step["done"]}
        job_id = step["ids"][0]
        run_tick(
            self._store, self._registry, self._settings, source="requeue", limit=1, linger=False, only_job_id=job_id
        )
        status = self._store.job(job_id, tenant_id=None)["status"]
        if status == "completed":
            return None
        return total | {
            "stopped_at": job_id,
            "stopped_because": f"job {job_id} ran first and is {status}, not completed",
        }
