"""What does not move, and equal errors."""

from typing import Literal

from lib.web.openapi.responses.base import Response, Time


class StuckThing(Response):
    """Something that does not move."""

    kind: Literal["killed", "due", "order", "faulty", "dead", "snoozed", "schedule"]
    """`killed`: a run whose lease has ended. `due`: a queue whose first job has been due for long. `order`: an order
    without a card and without a job. `faulty`: a row that work fails on. `dead`: dead letters that do not revive."""
    subject: str
    """What it is, like `job 7` or `queue email`."""
    stage: str | None
    count: int
    """How many jobs: of a queue, or dead letters of a stage."""
    capped: bool
    """There are more than were counted."""
    since: Time | None
    reason: str
    """A stable name, as that of `waiting_for` where it waits for that."""
    why: str
    """The reason as a sentence."""
    fix: str
    """The command that helps."""
    job_id: int | None
    """The job, or one of them."""
    tenant_id: str | None
    name: str | None
    """The id of what is no job: of an order, a schedule, a row or a circuit."""


class StuckList(Response):
    """What does not move, the worst first."""

    now: Time
    """The database's clock."""
    stuck: list[StuckThing]
    truncated: list[str]
    """The kinds of which only the oldest 20 are listed."""


class ErrorGroup(Response):
    """The errors of one kind and stage."""

    stage: str
    error: str
    """The text without what differs from job to job, such as ids, numbers and hosts."""
    count: int
    """Jobs: dead letters and retried ones."""
    dead: int
    retrying: int
    runs: int | None
    """Failed runs since `since`. Null without it."""
    capped: bool
    """There may be more than were counted."""
    first_at: Time | None
    last_at: Time | None
    next_revival_at: Time | None
    """When the first of its dead letters revives. Null: none does."""
    job_id: int
    """One of its jobs."""
    last_error: str | None
    """The error of that job. Personal data is masked."""
    next: list[str]
    """Commands: show one of its jobs, requeue its dead letters."""


class ErrorList(Response):
    """Errors by stage and kind, the most frequent first."""

    errors: list[ErrorGroup]
    more: bool
    """There are more kinds than the list holds."""
