"""What the API answers to those who mend."""

from typing import Literal

from pydantic import BaseModel

from lib.job import Status
from lib.web.openapi.answers import Circuit, Precision


class Requeued(BaseModel):
    """A job went back to the queue."""

    id: int
    was: Status
    status: Status


class Cancelled(Requeued):
    """`cancel_requested`: it runs, and the wish is noted."""

    cancel_requested: bool


class Restored(BaseModel):
    """A job came back from the archive."""

    id: int
    status: Status
    restored: bool


class RequeuedJobs(BaseModel):
    """Not `done`: ask again with `after`."""

    matched: int
    requeued: int
    done: bool
    after: int
    dry_run: bool
    stopped_at: int | None = None
    stopped_because: str | None = None


class CancelledFlow(BaseModel):
    """How many jobs were cancelled, and of how many the wish is noted."""

    tenant_id: str
    correlation_id: str
    cancelled: int
    cancel_requested: int


class Circuits(BaseModel):
    """Those that are not well."""

    circuits: list[Circuit]


class ResetCircuit(BaseModel):
    """Closed by a person."""

    circuit: str
    was: str
    state: Literal["closed"]


class StageInForce(BaseModel):
    """A stage with its rules in force, and who says so."""

    stage: str
    max_attempts: int
    ttr_seconds: int | None
    semantics: str
    said_by: dict[str, str]
    missing_setting: str | None
    paused_by: str | None
    jobs: dict[str, int]


class Stages(BaseModel):
    """Every stage."""

    stages: list[StageInForce]
    all_paused_by: str | None


class Pause(BaseModel):
    """`paused`: how it is now."""

    stage: str
    paused: bool


class PrecisionByStage(BaseModel):
    """Of the runs that ended within the window."""

    window_seconds: float
    precision: list[Precision]
