"""A wire calls SQL functions by name. All wires return the same values."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lib.errors import StoreError, Unavailable
from lib.telemetry.redact import clean

# A repeatable call is tried again after each of these pauses (seconds) …
_PAUSES = (0.05, 0.5)
# … but not later than this after its first try began (seconds).
_RETRY_WINDOW = 5.0
# Characters of an error's message.
_MAX_MESSAGE_LENGTH = 1_000


class Wire(Protocol):
    """Calls `public.<function>(p_<name> => value, …)` and returns plain JSON values (times as RFC 3339 text).

    Lists and dicts are sent as jsonb, tuples as SQL arrays. Numbers take the argument's type; one out of its range
    is refused. Void is returned as None. None of our functions returns rows or empty text.
    """

    def call(self, function: str, /, *, repeat: bool = False, within: float | None = None, **arguments: Any) -> Any:
        """Call a function in its own transaction. `repeat`: retry on a lost connection, for idempotent calls.

        A call that was certainly not carried out is retried in any case. Each try has a deadline: `lib.store.deadline`.
        `within`: the seconds after which the server cancels what the function does. It has to state them, too (`set
        statement_timeout`): that is what PostgREST reads.

        Raises:
            Unavailable, Misconfigured, Refused, Conflict, LeaseLost: see `lib.errors`.
        """

    def close(self) -> None:
        """Close the connections."""


def with_retries(once: Callable[[], Any], *, repeat: bool, secrets: Sequence[str]) -> Any:
    """Return the result of `once`; retry it briefly while it raises Unavailable.

    Without `repeat`, only after tries that were certainly not carried out. The message of the last error
    states if one may have been. The words of servers and libraries in it are cleaned; `secrets`: those of the wire.
    """
    try:
        return _with_retries(once, repeat=repeat)
    except StoreError as error:
        if not (error.sqlstate or "").startswith("GC"):  # our own words
            error.args = (clean(str(error), secrets=list(secrets), limit=_MAX_MESSAGE_LENGTH),)
        raise


def _with_retries(once: Callable[[], Any], *, repeat: bool) -> Any:
    until = time.monotonic() + _RETRY_WINDOW
    for pause in (*_PAUSES, None):
        try:
            return once()
        except Unavailable as error:
            harmless = repeat or error.undone
            if harmless and pause is not None and time.monotonic() + pause <= until:
                time.sleep(pause)
                continue
            if not harmless:
                error.args = (f"{error}; it may have been carried out: look before you repeat it",)
            raise
    raise AssertionError("the last try returns or raises")
