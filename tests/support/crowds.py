"""Many circuits with queued jobs."""

from dataclasses import dataclass, field
from datetime import timedelta

from lib.job import Job
from tests.support.factory import World, done

PARKED = "unknown_here"


@dataclass
class Queue:
    """A circuit, its state and the times of its jobs, in seconds from now; each with a priority."""

    name: str
    jobs: list[tuple[float, int]]
    opens_in: float | None = None  # None: closed
    parked: bool = False
    stage: str = field(init=False)

    def __post_init__(self) -> None:
        self.stage = self.name.split(":")[0]

    @property
    def ready(self) -> bool:
        return not self.parked and (self.opens_in is None or self.opens_in <= 0)

    def starts_in(self) -> float | None:
        """Return the seconds until one of its jobs may start; None: that is not known."""
        if self.parked or not self.jobs:
            return None
        return max(min(at for at, _ in self.jobs), self.opens_in or -1e9)


def fill(world: World, queues: list[Queue]) -> None:
    now = world.now
    assert now
    rows = [
        (queue.stage, queue.name, f"{queue.name}-{n}", priority, now + timedelta(seconds=at))
        for queue in queues
        for n, (at, priority) in enumerate(queue.jobs)
    ]
    world.run(
        "insert into giftcard_jobs (stage, circuit, correlation_id, priority, scheduled_at)"
        " select * from unnest(%s::text[], %s::text[], %s::text[], %s::smallint[], %s::timestamptz[])",
        *(list(column) for column in zip(*rows, strict=True)),
    )
    for queue in queues:
        if queue.opens_in is not None:
            world.run(
                "insert into giftcard_circuits (circuit, state, changed_at, open_until) values (%s, 'open', %s, %s)",
                queue.name, now - timedelta(hours=1), now + timedelta(seconds=queue.opens_in),
            )  # fmt: skip
        if queue.parked and queue.stage != PARKED:
            world.run(
                "insert into giftcard_stages (stage, paused_at) values (%s, %s) on conflict do nothing",
                queue.stage,
                now,
            )


def crowd(world: World, count: int, *, jobs: int = 1, stage: str = "http_call", due_in: float = -60) -> None:
    """Queue jobs of many circuits of a stage."""
    fill(world, [Queue(f"{stage}:{n:05}", [(due_in, 0)] * jobs) for n in range(count)])


def block(world: World, *, but: str = "") -> None:
    world.run(
        "insert into giftcard_circuits (circuit, state, changed_at, open_until)"
        " select distinct circuit, 'open', %s::timestamptz, %s::timestamptz + interval '1 hour' from giftcard_jobs"
        "  where circuit <> %s",
        world.now, world.now, but,
    )  # fmt: skip


def drain(world: World, *, limit: int, most: int) -> list[Job]:
    """Run ticks until one finds nothing; at most this many claims."""
    ran: list[Job] = []
    tick = world.begin(limit=limit)
    for _ in range(most):
        if not tick.jobs:
            return ran
        ran += tick.jobs
        tick.advance(*map(done, tick.jobs), limit=limit, busy=0)
        if not tick.jobs:
            tick = world.begin(limit=limit)
    raise AssertionError(f"there is more after {most} claims")
