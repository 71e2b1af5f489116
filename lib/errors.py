"""Everything that can go wrong, in one tree.

GiftcardError
├── Failure                   what a handler raises; others than these count as transient
│   ├── PermanentError            the job itself is at fault: trying again cannot help
│   │   ├── Declined              a vendor's definite no, stored under the key it was asked with
│   │   └── UnknownOutcome        nobody can tell whether an effect happened: a person decides
│   └── TransientError            trying again may help
│       ├── DuplicatePersonalCode every candidate is taken; does not count for the circuit
│       ├── TtrExceeded           one attempt took longer than its ttr
│       └── Interrupted           the run's lease ended without a settle: its process was killed
├── SettingsError             a variable of the environment is wrong
├── Invalid                   what a caller asked for is not valid; nothing was done
│   └── InvalidJob                a payload that its stage does not take
├── LeaseLost                 the job belongs to someone else now: stop, nothing you do counts
└── StoreError
    ├── Unavailable           the database cannot be reached, or went away in the middle of a call
    ├── Misconfigured         it answers, but not to us: missing schema, wrong version, wrong key
    ├── Refused               it said no, and why (our own SQLSTATEs and data errors)
    └── Conflict              a unique constraint said no
"""

from typing import Any

# 401, 403 and 409 are not here: they are our own misconfiguration or a race, and must not kill a queue.
PERMANENT_HTTP_STATUSES = frozenset({400, 402, 404, 410, 413, 415, 422})


class GiftcardError(Exception):
    """The root: catch it to catch what this package raises on purpose."""


class SettingsError(GiftcardError):
    """The message names the variable, what it holds (unless secret) and what is allowed."""


class Failure(GiftcardError):
    """What a handler raises. `detail`: a small JSON object kept with the run, such as a vendor's status."""

    def __init__(self, message: str = "", *, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class PermanentError(Failure):
    """The job goes to `error` at once and is not revived."""


class Declined(PermanentError):
    """The vendor said no for good and will repeat it under the same key; nothing happened out there."""


class UnknownOutcome(PermanentError):
    """An effect was begun long ago, its key is no longer alive at the vendor, and the vendor cannot be asked."""


class TransientError(Failure):
    """The job is retried by its stage's policy.

    `retry_after` is the other side's wish in seconds (a floor under the delay), or None. `counts`: towards opening the
    circuit; not where the fault is ours, such as a setting that is missing.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        counts: bool = True,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, detail=detail)
        self.retry_after = retry_after
        self.counts = counts


class DuplicatePersonalCode(TransientError):
    """No free personal code was found in three tries."""


class TtrExceeded(TransientError):
    """The attempt outlived its ttr; what it returns later is dropped."""


class Interrupted(TransientError):
    """The function that ran the job was killed."""


class Invalid(GiftcardError):
    """`field` names what is at fault."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidJob(Invalid):
    """A payload that its stage does not take. `index` is the job's in the list; `field` starts with `payload`."""

    def __init__(self, message: str, *, field: str, index: int) -> None:
        super().__init__(message, field=field)
        self.index = index


class LeaseLost(GiftcardError):
    """The lease is not the job's current one any more."""


class StoreError(GiftcardError):
    """A call to Postgres failed."""


class Unavailable(StoreError):
    """Nothing is known of the call: it may have been carried out."""


class Misconfigured(StoreError):
    """The message says which side to mend."""


class Refused(StoreError):
    """The database refused; nothing was changed.

    `sqlstate` is one of ours (GC400 bad argument, GC404 no such thing, GC409 not in this state, GC422 same key
    with other content) or a data error's. `field` names the argument at fault, where there is one.
    """

    def __init__(self, message: str, *, sqlstate: str, field: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.field = field


class Conflict(StoreError):
    """A unique constraint refused; `constraint` is its name."""

    def __init__(self, message: str, *, constraint: str) -> None:
        super().__init__(message)
        self.constraint = constraint


def is_permanent_status(status: int) -> bool:
    """Return whether an HTTP status means that the request itself is at fault, for good."""
    return status in PERMANENT_HTTP_STATUSES
