"""Operations on many jobs: the steps that a tick carries out (`supabase/schemas/39_operation_steps.sql`)."""

import time

from lib.store.store import Store

# Seconds in which steps begin, and jobs per step, which is one call and one transaction of some 100 ms.
_BUDGET = 3.0
_STEP = 500


def carry_out(store: Store, *, budget: float = _BUDGET) -> dict[str, int]:
    """Carry out steps of the running operations in turn, for `budget` seconds. The next tick goes on.

    Return how many `steps` there were, and the operations that have `ended`.
    """
    deadline = time.monotonic() + budget
    waiting: set[int] = set()
    counts = {"steps": 0, "ended": 0}
    while True:
        step = store.step_operation(limit=_STEP, skip=tuple(sorted(waiting)))
        if step is None:
            return counts
        if step["waits"]:
            waiting.add(step["id"])
        else:
            counts["steps"] += 1
        counts["ended"] += step["state"] != "running"
        if time.monotonic() >= deadline:
            return counts
