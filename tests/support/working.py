"""What the stage of these tests does, and the calls of a tick that has begun."""

from typing import Any

from lib.errors import PermanentError, TransientError
from lib.job import Complete, Outcome

# The second settles runs that are all complete.
ADVANCES = {"giftcard_advance_tick", "giftcard_step"}


def works(payload: Any, context: Any) -> Outcome:
    """As its payload says: `fails` "ever" is a dead letter at once, anything else a failure that is tried again."""
    if context.job.payload.get("fails") == "ever":
        raise PermanentError("of kate@example.com")
    if context.job.payload.get("fails"):
        raise TransientError("no")
    return Complete()
