"""A job as handlers see it, and the outcomes they can give it: frozen values."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Status = Literal["queued", "running", "completed", "error", "cancelled"]
Semantics = Literal["at_least_once", "at_most_once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One claimed row of `giftcard_jobs`. Times are aware UTC.

    `attempts` is the number of the attempt that runs now, within the present round; `run_no` counts all runs for
    ever. `max_attempts`, `retry_delays`: None means the stage's policy. `ttr` is in seconds, already resolved.
    `interrupted`: the run was killed and is brought back only to be settled as a failure.
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

    @property
    def payload(self) -> dict[str, Any]:
        """Read each time: a payload that cannot be read spoils its own job only."""
        value: dict[str, Any] = json.loads(self.payload_json)
        return value

    @property
    def context(self) -> dict[str, Any]:
        """What earlier stages of the flow have learned."""
        value: dict[str, Any] = json.loads(self.context_json)
        return value

    @property
    def run(self) -> tuple[int, int]:
        """What tells this run from every other: the lease names the claim, which may have taken many jobs."""
        return self.id, self.run_no


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJob:
    """A job to enqueue in the same transaction as the settle that causes it: same tenant, flow and context.

    `payload` None: the payload of the job that is settled. `at`: not before this (aware) time; `delay_seconds`: so much
    later. The others are rules of its own; None: those of its stage.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The work is done. `context` is merged into the job's. `detail`: a small object kept with the run."""

    context: dict[str, Any] = field(default_factory=dict)
    next: tuple[NextJob, ...] = ()
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A failure that is tried again after `delay` seconds. `counts`: towards opening the circuit."""

    delay: float
    error: str
    counts: bool = True
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A dead letter. `revive` seconds from now it goes back to queued by itself; None: never."""

    error: str
    revive: float | None = None
    counts: bool = False
    next: tuple[NextJob, ...] = ()
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snooze:
    """Not now, and not a failure: look again in `delay` seconds; the attempt is given back."""

    delay: float
    waiting_for: str
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The handler never began: the attempt is given back and the job is due at once."""


Outcome = Complete | Retry | Error | Snooze | Release
