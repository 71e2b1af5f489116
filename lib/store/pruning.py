"""The calls about what has ended: pruning, the archive."""

from typing import Any

from lib.store.calls import Calls


class PruningCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/34_prune.sql`."""

    def prune(self, limits: dict[str, str | None], *, limit: int, dry_run: bool) -> dict[str, Any]:
        """One step. `limits`: what stays for how long, like {"jobs": "30 days"}; None: for ever."""
        return self._dict("giftcard_prune", repeat=True, limit=limit, dry_run=dry_run, **limits)

    def restore(self, job_id: int) -> dict[str, Any]:
        """A job from the archive. Not repeated on a lost connection: the second would not find it there."""
        return self._dict("giftcard_restore_job", job_id=job_id)
