"""Calls for pruning and the archive."""

from typing import Any

from lib.store.calls import Calls


class PruningCalls(Calls):
    """Documented in `supabase/schemas/34_prune.sql`."""

    def prune(self, limits: dict[str, str | None], *, limit: int, dry_run: bool) -> dict[str, Any]:
        """Prune one batch. `limits`: how long each kind is retained, like {"jobs": "30 days"}; None: forever."""
        return self._dict("giftcard_prune", repeat=True, limit=limit, dry_run=dry_run, **limits)

    def restore(self, job_id: int) -> dict[str, Any]:
        """Restore a job from the archive. Not repeated on a lost connection: a second call would not find it."""
        return self._dict("giftcard_restore_job", job_id=job_id)
