"""Calls for limits: list, set and remove."""

from typing import Any

from lib.caller import Caller
from lib.store.calls import Calls


class LimitCalls(Calls):
    """Documented in `supabase/schemas/32_manage_limits.sql` and `32_show_limits.sql`."""

    def list_limits(self, *, kind: str | None, older: str | None, limit: int) -> dict[str, Any]:
        """Return a page of limits and of the settings' defaults, by kind, name and tenant."""
        return self._dict("giftcard_list_limits", repeat=True, kind=kind, older=older, limit=limit)

    def set_limit(self, *, caller: Caller, **limit: Any) -> dict[str, Any]:
        """Set a limit in place of the one with its kind, name and tenant. Return it.

        Not repeated on a lost connection: `for_seconds` would begin anew.
        """
        return self._dict("giftcard_set_limit", by=caller.name, **limit)

    def remove_limit(self, *, caller: Caller, **key: Any) -> dict[str, Any]:
        """Remove a limit, and return what it was. Not repeated: a second call would not find it."""
        return self._dict("giftcard_remove_limit", by=caller.name, **key)
