"""The base class of all groups of store calls."""

from typing import Any

from lib.caller import Caller
from lib.store.wire import Wire


class Calls:
    """A group of typed methods, one per SQL function, over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def _dict(self, function: str, *, repeat: bool = False, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._wire.call(function, repeat=repeat, **arguments)
        return result

    def _act(self, function: str, caller: Caller, *, repeat: bool = False, **arguments: Any) -> dict[str, Any]:
        """Call the function of an operator's act, which records it, on a row that the caller may change."""
        return self._dict(function, repeat=repeat, by=caller.name, tenant_id=caller.tenant_id, **arguments)

    def _rows(self, function: str, **arguments: Any) -> list[dict[str, Any]]:
        """Call a read-only function that returns an array."""
        rows: list[dict[str, Any]] = self._wire.call(function, repeat=True, **arguments)
        return rows
