"""What every part of the store has: the wire, and how its answers come back."""

from typing import Any

from lib.store.wire import Wire


class Calls:
    """One method per SQL function, typed; this is what they are made with."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def _dict(self, function: str, *, repeat: bool = False, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._wire.call(function, repeat=repeat, **arguments)
        return answer

    def _rows(self, function: str, **arguments: Any) -> list[dict[str, Any]]:
        """What a function that only reads answers as an array."""
        answer: list[dict[str, Any]] = self._wire.call(function, repeat=True, **arguments)
        return answer
