"""What a wire is: a way to call one SQL function by name. Everything above it sees the same values on each."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from lib.errors import Unavailable

# A call that is harmless to repeat is tried once more after each of these pauses (seconds).
_PAUSES = (0.05, 0.5)
# No try begins so many seconds after the first one began.
_PATIENCE = 5.0


class Wire(Protocol):
    """Calls `public.<function>(p_<name> => value, …)` and answers plain JSON values (times as RFC 3339 text).

    Lists and dicts travel as jsonb, tuples as SQL arrays. Numbers take the type of the argument, as in JSON; a number
    that it cannot hold is refused. A function that returns void answers None. None of ours returns rows or empty text.
    """

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """One call, one transaction. `repeat`: a second call does no harm, so a lost connection is tried again.

        Raises:
            Unavailable, Misconfigured, Refused, Conflict, LeaseLost: as `lib.errors` explains them.
        """

    def close(self) -> None:
        """Gives connections back."""


def repeated(once: Callable[[], Any], *, repeat: bool) -> Any:
    """What `once` answers; tried again, briefly, while it is Unavailable and if `repeat` allows it."""
    until = time.monotonic() + _PATIENCE
    for pause in (*_PAUSES, None) if repeat else (None,):
        try:
            return once()
        except Unavailable:
            if pause is None or time.monotonic() + pause > until:
                raise
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")
