"""What a wire is: a way to call one SQL function by name. Everything above it sees the same values on each."""

from typing import Any, Protocol


class Wire(Protocol):
    """Calls `public.<function>(<name> => value, …)` and answers plain JSON values (times as RFC 3339 text).

    Lists and dicts travel as jsonb, tuples as SQL arrays, everything else as itself.
    """

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """One call, one transaction. `repeat`: a second call does no harm, so a lost connection is tried again.

        Raises:
            Unavailable, Misconfigured, Refused, Conflict, LeaseLost: as `lib.errors` explains them.
        """

    def close(self) -> None:
        """Gives connections back."""
