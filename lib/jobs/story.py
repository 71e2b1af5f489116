"""The story of a job: the job, its runs, the jobs of its flow and its effects outside, in one database call."""

from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.jobs.shown import initials, masked, paused_by_setting
from lib.store.store import Store
from lib.telemetry.redact import covered

Json = dict[str, Any]


class JobStories:
    """The stories of the jobs of a store. A caller of one tenant sees that tenant's alone."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def find(self, job_id: int, *, limit: int = 20, older: int | None = None) -> Json:
        """Return the story of a job, masked; of the names in payload and context it has the initials.

        `job`; `runs`, a page of them, newest first (`older`: the cursor of the next page); `flow`, the newest 50 jobs
        of its flow, oldest first (`more_of_flow`: there are older ones); `effects`.

        Raises:
            Refused: there is no such job.
        """
        story = self._read(job_id, limit=limit, older=older)
        job = masked(story["job"])
        job |= {name: initials(job[name]) for name in ("payload", "context")}
        return story | {"job": job}

    def reveal(self, job_id: int, *, reason: str) -> Json:
        """Return the story of a job with its own personal data in clear, which the audit records with the reason."""
        story = self._read(job_id, limit=20, older=None)
        tenant_id = story["job"]["tenant_id"]
        self._store.record_reveal(subject=f"job {job_id}", tenant_id=tenant_id, reason=reason, caller=self._caller)
        return story

    def _read(self, job_id: int, *, limit: int, older: int | None) -> Json:
        registry = self._registry()
        story = self._store.job_story(
            job_id,
            limit=limit,
            older=older,
            tenant_id=self._caller.tenant_id,
            stages=registry.ready(self._settings),
            missing=registry.unready(self._settings),
        )
        story |= {name: [masked(row) for row in story[name]] for name in ("runs", "flow")}
        story["effects"] = [effect | {"note": covered(effect["note"])} for effect in story["effects"]]
        if self._settings.giftcard_paused:
            story["job"] = paused_by_setting(story["job"])
        return story
