"""Calls for batches."""

from typing import Any

from lib.caller import Caller
from lib.store.calls import Calls


class BatchCalls(Calls):
    """Documented in `supabase/schemas/`, the files 29."""

    def create_batch(self, *, tenant_id: str, caller: Caller, **wanted: Any) -> dict[str, Any]:
        """Create a batch with its jobs. Called again with its name it returns the same one.

        Not repeated without a name: the second call would find the jobs of the first.
        """
        repeat = wanted["name"] is not None
        return self._dict("giftcard_create_batch", repeat=repeat, tenant_id=tenant_id, by=caller.name, **wanted)

    def add_to_batch(self, batch_id: int, *, jobs: list[dict[str, Any]], caller: Caller) -> dict[str, Any]:
        """Enqueue more jobs into an open batch. A job that is in it already stays as it is."""
        return self._act("giftcard_add_to_batch", caller, repeat=True, id=batch_id, jobs=jobs)

    def seal_batch(self, batch_id: int, *, caller: Caller) -> dict[str, Any]:
        """Seal a batch; a sealed one stays as it is."""
        return self._act("giftcard_seal_batch", caller, repeat=True, id=batch_id)

    def show_batch(self, batch_id: int, *, tenant_id: str | None) -> dict[str, Any]:
        """Return a batch with its progress."""
        return self._dict("giftcard_show_batch", repeat=True, id=batch_id, tenant_id=tenant_id)

    def list_batches(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of batches, newest first."""
        return self._dict("giftcard_list_batches", repeat=True, **arguments)

    def end_quiet_batches(self, *, limit: int) -> int:
        """End batches whose last jobs have ended by plain SQL. Return how many."""
        return int(self._wire.call("giftcard_end_quiet_batches", repeat=True, limit=limit))
