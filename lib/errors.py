"""All exceptions, in one tree.

GiftcardError
├── Failure                   raised by handlers; any other exception counts as transient
│   ├── PermanentError            the job itself is at fault: a retry cannot help
│   │   ├── Declined              a vendor's final refusal, stored under the request's key
│   │   └── UnknownOutcome        whether an effect happened is unknown: an operator decides
│   └── TransientError            a retry may help
│       ├── DuplicatePersonalCode every candidate is taken
│       ├── TtrExceeded           an attempt took longer than its ttr
│       └── Interrupted           the run's lease expired without a settle: its process was killed
├── SettingsError             environment variables are invalid
├── StageError                a file declares an impossible stage; also a ValueError
├── Invalid                   a request is invalid; nothing was changed
│   └── InvalidJob                a payload that its stage refuses, an impossible ttr, a webhook; also a ValueError
├── Forbidden                 the caller, or this deployment, may not do that; nothing was changed
├── Pending                   a vendor has accepted a request and not decided yet: ask again later
├── LeaseLost                 another run has the job now: stop
└── StoreError
    ├── Unavailable           the database cannot be reached, was lost during a call, or failed by itself
    ├── Misconfigured         the database rejects us: missing schema, wrong version, wrong key
    ├── Refused               the data is at fault (our own SQLSTATEs and data errors)
    └── Conflict              the data is at fault: it violates a unique constraint
"""

from collections.abc import Sequence
from typing import Any

# Without 401, 403 and 409: those are our own misconfiguration or a race, and must not dead-letter a queue.
PERMANENT_HTTP_STATUSES = frozenset({400, 402, 404, 410, 413, 415, 422})


class GiftcardError(Exception):
    """The base of all exceptions that this package raises on purpose."""


class SettingsError(GiftcardError):
    """Invalid settings. `sentences`: one for each, which names the variable and what is allowed, never the value."""

    def __init__(self, *sentences: str) -> None:
        more = f" ({len(sentences) - 1} more; for all of them: flask jobs doctor)" if len(sentences) > 1 else ""
        super().__init__(sentences[0] + more)
        self.sentences = sentences


class StageError(GiftcardError, ValueError):
    """An impossible stage. The message names the stage and what is allowed."""


class Failure(GiftcardError):
    """A failed run. `detail`: a small JSON object stored with the run, such as a vendor's status.

    `without_effect`: its request had no effect, for certain: it was not sent, or refused for good. `of_result`: the
    handler ended, and what it returned is at fault.
    """

    without_effect = False
    of_result = False

    def __init__(self, message: str = "", *, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class PermanentError(Failure):
    """A failure for good: the job goes to `error` at once and is not revived."""


class Declined(PermanentError):
    """The vendor refused for good, and will do so again under the same key; there was no effect."""


class UnknownOutcome(PermanentError):
    """An effect began long ago, its key has expired at the vendor, and the vendor offers no lookup."""


class TransientError(Failure):
    """A failure that is retried by the stage's policy.

    `retry_after` is the server's Retry-After in seconds (a floor under the delay), or None. `counts`: whether it counts
    towards opening the circuit; false where the fault is ours, such as a missing setting.
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
    """Three tries found no free personal code."""


class TtrExceeded(TransientError):
    """The attempt exceeded its ttr; its later result is dropped."""


class Interrupted(TransientError):
    """The process that ran the job was killed."""


class Invalid(GiftcardError):
    """An invalid request. `field` names the part at fault, the first of `errors`: (field, message) of each."""

    def __init__(self, message: str, *, field: str, errors: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.field = field
        self.errors = tuple(errors) or ((field, message),)


class InvalidJob(Invalid, ValueError):
    """A job that cannot be enqueued. `index` is its place in the list; `field` is `stage`, `ttr_seconds` or
    starts with `payload`. `others`: those of the same list that cannot be, either."""

    def __init__(self, message: str, *, field: str, index: int, errors: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message, field=field, errors=errors)
        self.index = index
        self.others: tuple[InvalidJob, ...] = ()


class Forbidden(GiftcardError):
    """The caller, or this deployment, may not do that. `field`: the part of the request at fault; `fix`: what to do."""

    def __init__(self, message: str, *, field: str | None = None, fix: str | None = None) -> None:
        super().__init__(f"{message}: {fix}" if fix else message)
        self.message, self.field, self.fix = message, field, fix


class Pending(GiftcardError):
    """A vendor has accepted a request under its key, and decides later. The handler snoozes."""


class LeaseLost(GiftcardError):
    """The lease is no longer the job's current one."""


class StoreError(GiftcardError):
    """A call to Postgres failed. `sqlstate`: the server's; None if the server did not respond with one."""

    sqlstate: str | None = None


class Unavailable(StoreError):
    """The database, or a wire to it, failed: the call may have been carried out.

    `undone`: it certainly was not, because it was never sent or the server rolled it back.
    """

    def __init__(self, message: str = "", *, sqlstate: str | None = None, undone: bool = False) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.undone = undone


class Misconfigured(StoreError):
    """The database or its settings are wrong; the message states what to fix."""

    def __init__(self, message: str = "", *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Refused(StoreError):
    """The database refused; nothing was changed.

    `sqlstate` is one of ours (GC400 invalid argument, GC404 not found, GC409 wrong state, GC422 same key with other
    content) or a data error's. `field` names the argument at fault, if any.
    """

    def __init__(self, message: str, *, sqlstate: str, field: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate: str = sqlstate
        self.field = field


class Conflict(StoreError):
    """A unique constraint named `constraint` is violated."""

    sqlstate = "23505"

    def __init__(self, message: str, *, constraint: str) -> None:
        super().__init__(message)
        self.constraint = constraint


def is_permanent_status(status: int) -> bool:
    """Return whether an HTTP status means that the request itself is at fault."""
    return status in PERMANENT_HTTP_STATUSES
