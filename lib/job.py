"""Jobs as handlers see them, and the outcomes of their runs.

Those that ticks make by the thousand are not frozen, which would double the cost of making one. Change none: `replace`.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Status = Literal["queued", "running", "completed", "error", "cancelled"]
Semantics = Literal["at_least_once", "at_most_once"]
# Where a payload comes from: the application, a pgmq message, or a plain INSERT or UPDATE.
Source = Literal["app", "pgmq", "sql"]

# The longest Retry-After that is followed, in seconds.
LONGEST_RETRY_AFTER = 24 * 3600.0


@dataclass(slots=True, kw_only=True)
class Job:
    """A claimed row of `giftcard_jobs`. Times are aware UTC.

    `attempts` is the number of the current attempt within the current round; `run_no` counts all runs. `max_attempts`,
    `retry_delays`: None means the stage's policy. `ttr` is the effective value in seconds. `interrupted`: the run was
    killed and is claimed only to be settled as a failure. `source`: where the payload, or that of the flow's first job,
    comes from. A handler has a copy: its run is settled by what was claimed, whatever becomes of the copy.
    """

    id: int
    tenant_id: str
    correlation_id: str
    stage: str
    dedup_key: str
    circuit: str
    payload_json: str
    context_json: str
    attempts: int
    max_attempts: int | None
    run_no: int
    revivals: int
    semantics: Semantics
    ttr: float
    retry_delays: tuple[float, ...] | None
    scheduled_at: datetime
    locked_at: datetime
    lock_owner: str
    lease_id: str
    interrupted: bool
    source: Source = "sql"

    @property
    def payload(self) -> dict[str, Any]:
        """Parse the payload on each access, so that an invalid one fails its own job only."""
        value: dict[str, Any] = json.loads(self.payload_json)
        return value

    @property
    def context(self) -> dict[str, Any]:
        """Parse the context: what earlier stages of the flow stored."""
        value: dict[str, Any] = json.loads(self.context_json)
        return value

    @property
    def flow(self) -> tuple[str, str]:
        """The job's flow: (tenant id, correlation id)."""
        return self.tenant_id, self.correlation_id

    @property
    def run(self) -> tuple[int, int]:
        """The key of this run: (job id, run number). A lease does not identify it, because a claim takes many jobs."""
        return self.id, self.run_no


@dataclass(slots=True, kw_only=True)
class NextJob:
    """A job to enqueue in the transaction of the settle, with the same tenant, flow and context.

    `payload` None: the payload of the settled job. `at`: not before this (aware) time; `delay_seconds`: relative to the
    settle. `priority`, `concurrency_key` None: those of the settled job, unless its stage gives a key; "" is no key.
    The other fields override the stage's settings unless None.
    """

    stage: str
    payload: dict[str, Any] | None = None
    dedup_key: str = ""
    circuit: str | None = None
    at: datetime | None = None
    ttr_seconds: int | None = None
    delay_seconds: float | None = None
    semantics: Semantics | None = None
    max_attempts: int | None = None
    retry_delays: tuple[float, ...] | None = None
    priority: int | None = None
    concurrency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the table `giftcard_settle_functions`, and its one argument, an object of JSON."""

    function: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Complete:
    """The job is done. `context` is merged into the job's. `detail`: a small object stored with the run.

    `then` is called in the transaction of the settle: if it is refused, the job is not done, but a dead letter.
    """

    context: dict[str, Any] = field(default_factory=dict)
    next: tuple[NextJob, ...] = ()
    detail: dict[str, Any] | None = None
    then: Call | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A failure, retried after `delay` seconds. `counts`: whether it counts towards opening the circuit.

    `hold`: the seconds that the other side asked to be left alone for (Retry-After). Where its stage or circuit has a
    rate, no other job of it starts before.
    """

    delay: float
    error: str
    counts: bool = True
    hold: float | None = None
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A dead letter. It is revived after `revive` seconds; None: never. `hold`: as that of a retry."""

    error: str
    revive: float | None = None
    counts: bool = False
    hold: float | None = None
    next: tuple[NextJob, ...] = ()
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Run again in `delay` seconds; not a failure, and the attempt does not count."""

    delay: float
    waiting_for: str
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The handler never began: the attempt does not count and the job is due at once."""


Outcome = Complete | Retry | Error | Snooze | Release
