"""What the stage of these tests does."""

from typing import Any

from lib.errors import PermanentError, TransientError
from lib.job import Complete, Outcome


def works(payload: Any, context: Any) -> Outcome:
    """As its payload says: `fails` "ever" is a dead letter at once, anything else a failure that is tried again."""
    if context.job.payload.get("fails") == "ever":
        raise PermanentError("of kate@example.com")
    if context.job.payload.get("fails"):
        raise TransientError("no")
    return Complete()
