"""Results with a call (`Complete.then`) are settled on the thread of their run: no other result waits for them."""

import time
from dataclasses import replace

from lib.errors import Conflict, PermanentError, Refused, StoreError, TransientError, Unavailable
from lib.job import Call
from lib.jobs.context import Context
from lib.store.codec import Result, Settle
from lib.store.sqlstate import may_be_one_row

# Seconds between tries of a call that another transaction, or the database, was in the way of.
_PAUSES = (0.2, 1.0, 2.0)


def settle_with_call(result: Result, call: Call, context: Context, *, tick_id: int) -> Result:
    """Settle a result with its call and return it as settled. Never later than the ttr allows.

    What another transaction is in the way of is tried four times; while the database is away, as long as there is time.

    Raises:
        PermanentError: the function refuses, or may not be called.
        TransientError: it took too long, or the database was in the way.
    """
    pauses = iter(_PAUSES)
    while True:
        settle, patient = _try(result, context, tick_id)
        if settle.called_off is None:
            return replace(result, settle=settle)
        kind, why = settle.called_off["kind"], settle.called_off["error"]
        if kind == "refused":
            raise PermanentError(f"{call.function} refused: {why}")
        pause = next(pauses, _PAUSES[-1] if patient else None)
        if kind == "timeout" or pause is None or time.monotonic() + pause > context.until:
            # Not a failure of what the stage calls outside: it does not count towards its circuit.
            raise TransientError(f"{call.function} did not return: {why}", counts=False)
        time.sleep(pause)


def _try(result: Result, context: Context, tick_id: int) -> tuple[Settle, bool]:
    """Return what a try has done, and whether the database was away as a whole."""
    cooldown = context.settings.giftcard_circuit_cooldown_seconds
    try:
        return context.store.settle_with_call(tick_id, result=result, cooldown_seconds=cooldown), False
    except (Refused, Conflict) as error:
        failure = PermanentError(f"its result cannot be stored: {error}")
        failure.of_result = True
        raise failure from None
    except StoreError as error:
        away = isinstance(error, Unavailable) and not may_be_one_row(error)
        return Settle(called_off={"kind": "unavailable", "error": str(error)}), away
