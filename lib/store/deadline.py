"""The deadline of a call: nothing that it waits for takes longer, not even a name that does not resolve."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds. The server ends a statement first, so that its error arrives; the client ends what gets no response.
STATEMENT_SECONDS = 10.0
CALL_SECONDS = 12.0
CONNECT_SECONDS = 5


def run_within(seconds: float, act: Callable[[], T], *, drop: Callable[[T], object]) -> T:
    """Return the result of `act`, called on a thread of its own. What comes later is given to `drop`.

    For what has no time limit itself: a resolver, several addresses in turn.

    Raises:
        TimeoutError: there was no result within so many seconds.
    """
    results: queue.SimpleQueue[tuple[bool, T | BaseException]] = queue.SimpleQueue()
    late = threading.Event()

    def run() -> None:
        try:
            result = act()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            results.put((False, error))
            return
        if late.is_set():
            drop(result)
        else:
            results.put((True, result))

    threading.Thread(target=run, name="connect", daemon=True).start()
    try:
        succeeded, result = results.get(timeout=max(0.0, seconds))
    except queue.Empty:
        late.set()
        raise TimeoutError(f"no connection within {seconds:.1f} s") from None
    if not succeeded:
        raise result  # type: ignore[misc]
    return result  # type: ignore[return-value]
