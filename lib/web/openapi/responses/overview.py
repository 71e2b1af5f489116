"""The overview: the first screen of operators. Counts that are capped are so at 1,000, unless they state another."""

from typing import Annotated, Literal

from pydantic import Field

from lib.web.openapi.responses.base import Response, Time
from lib.web.openapi.responses.decisions import Difference
from lib.web.openapi.responses.monitoring import DoctorCheck
from lib.web.openapi.responses.ticks import OverviewTicks
from lib.web.openapi.responses.verdict import Verdict


class StagePauseInfo(Response):
    """A pause."""

    by: str | None
    reason: str | None
    since: Time | None


class OverviewStage(Response):
    """A stage. A count of `cap` may be more."""

    stage: str
    waiting: int
    """Queued jobs that have not run yet."""
    retrying: int
    """Queued jobs that have."""
    later: int
    """Of both: those that are scheduled for later."""
    running: int
    dead: int
    cap: int
    oldest_due_at: Time | None
    availability: str
    paused: StagePauseInfo | None
    runs: int
    """Runs of the last hour."""
    succeeded: int
    p50_ms: float | None
    """How long they took."""
    p95_ms: float | None


class OverviewCircuit(Response):
    """A circuit that is not closed."""

    circuit: str
    stage: str
    state: Literal["open", "half_open"]
    failures: int
    since: Time | None
    open_until: Time | None
    """When one job tries the service."""
    waiting: int
    """Due jobs that wait for it."""
    last_error: str | None


class OldestDue(Response):
    """The job that has been due for longest."""

    job_id: int
    stage: str
    tenant_id: str
    since: Time | None
    reason: str | None
    text: str | None


class DeadLetterGroup(Response):
    """Dead letters of one stage and kind of error."""

    stage: str
    kind: str
    count: int
    capped: bool
    since: Time | None
    last_at: Time | None
    job_id: int
    """One of them."""
    revive_at: Time | None
    """When the next one revives."""


class KilledRuns(Response):
    """Runs whose lease has ended, and that no tick has taken over yet."""

    count: int
    capped: bool
    since: Time | None
    job_id: int
    """The oldest."""
    stage: str
    until: Time | None
    """Until when ticks pass over it, because they fail on it."""


class EndpointsOff(Response):
    """Webhook endpoints that refused events for good."""

    count: int
    capped: bool
    id: int
    """The newest."""
    tenant_id: str
    since: Time | None
    reason: str


class OverviewDifferences(Response):
    """Where money and cards do not match."""

    count: int
    capped: bool
    lines: list[Difference]
    """The five oldest."""


class CurrencySums(Response):
    """Sums in minor units."""

    currency: str
    ordered: int
    paid: int
    issued: int


class Today(Response):
    """What happened today, in UTC."""

    since: Time
    orders: int
    cards: int
    mails: int
    capped: bool
    """There may be more than 10,000 of each."""
    sums: list[CurrencySums]


class RunCounts(Response):
    """How runs of a minute or an hour ended."""

    at: Time
    succeeded: int
    failed: int
    interrupted: int
    snoozed: int


class OverviewRuns(Response):
    """How runs ended."""

    minutes: list[RunCounts]
    """The last 60."""
    hours: list[RunCounts]
    """The last 168."""


class StartDelays(Response):
    """How late the runs of a minute began."""

    at: Time
    runs: int
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None


class Overview(Response):
    """The first screen of operators."""

    now: Time
    """The database's clock."""
    schema_: Annotated[int, Field(alias="schema")]
    """The version of the database schema."""
    verdict: Verdict
    ticks: OverviewTicks
    stages: list[OverviewStage]
    flow: list[str]
    """The stages of an order, in order."""
    missing: dict[str, str]
    """The stages that cannot run, each with the missing setting or the reason."""
    circuits: list[OverviewCircuit]
    """Those that most jobs wait for, 20 at most."""
    circuits_more: bool
    oldest_due: OldestDue | None
    dead: list[DeadLetterGroup]
    """The ten largest groups."""
    dead_more: bool
    killed: KilledRuns | None
    endpoints_off: EndpointsOff | None
    differences: OverviewDifferences
    all_paused: StagePauseInfo | None
    paused_by_setting: bool
    runs_ticks: bool
    """Whether this deployment runs ticks: a preview may not."""
    today: Today
    runs: OverviewRuns
    starts: list[StartDelays]
    """The last 60 minutes."""
    checks: list[DoctorCheck]
    """The doctor's checks that are not green."""
