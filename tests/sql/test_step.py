"""A step does what the general way does: the same histories through both, and every row of every table is equal."""

import itertools
import random
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lib.job import Complete, Job, NextJob, Outcome, Retry
from lib.store import codec
from lib.store.encode import encode_completed, encode_result
from tests.support.factory import STAGES, Row, Tick, World, done

SEEDS = 30
CALLS = 30
CIRCUITS = ["email", "payment", "http_call:a", "http_call:b"]


class History:
    """A random history of a few ticks. What it sees decides what it does: while both ways do the same, so does it."""

    def __init__(self, world: World, seed: int, *, by_step: bool) -> None:
        self.world, self.by_step = world, by_step
        self.rng = random.Random(seed)
        self.keys = itertools.count(1)
        self.seen: list[Any] = []
        self.ticks: list[tuple[Tick, list[Job]]] = []
        self.fields: list[Row] = [{}]
        if self.rng.random() < 0.2:
            self.fields += [{"tenant_id": "acme"}]
        if self.rng.random() < 0.2:
            self.fields += [{"priority": 5}]
        if self.rng.random() < 0.2:
            self.fields += [{"concurrency_key": "kate"}]
        if self.rng.random() < 0.2:
            world.run(
                "insert into public.giftcard_webhook_endpoints"
                " (tenant_id, url, events, secret_encrypted, created_at, updated_at)"
                " values ('default', 'https://shop.example', '{job.completed}', 'x', '2035-01-01', '2035-01-01')"
            )

    def key(self) -> str:
        return str(uuid.UUID(int=next(self.keys)))

    def play(self) -> None:
        self.enqueue(30)
        self.begin()
        for _ in range(CALLS):
            act = self.rng.choices(
                [self.advance, self.enqueue, self.begin, self.by_hand, self.hold],
                [30, 4, 3, 2, 2],
            )[0]
            act()
            self.world.later(self.rng.choice([0, 0.01, 0.2, 0.2, 1.5]))

    def enqueue(self, count: int = 0) -> None:
        for number in range(count or self.rng.randint(1, 8)):
            circuit = self.rng.choice(CIRCUITS)
            at = self.world.now + timedelta(seconds=self.rng.choice([-5, -1, 0, 0, 3]))
            self.world.enqueue(
                circuit.split(":")[0],
                circuit=circuit,
                correlation_id=f"flow-{next(self.keys)}-{number}",
                scheduled_at=at.isoformat(),
                **self.rng.choice(self.fields),
            )

    def begin(self) -> None:
        limits = self.rng.choice([{}, {}, {}, {"payment": {"runs": 2}}])
        # Without that of webhooks, which the general way enqueues before it claims.
        stages = {stage: seconds for stage, seconds in STAGES.items() if stage != "webhook"}
        more: Row = {"limits": limits, "stages": stages, "linger_seconds": 60}
        tick = self.world.begin(limit=self.rng.randint(0, 6), key=self.key(), **more)
        self.see(tick.step)
        self.ticks.append((tick, tick.jobs))

    def advance(self) -> None:
        """Settle some of what a tick runs, sometimes in two equal calls, as after a reply that was lost."""
        tick, running = self.rng.choice(self.ticks)
        count = self.rng.choice([len(running), self.rng.randint(0, len(running))])
        results = [self.result(job) for job in running[:count]]
        del running[:count]
        more = {"limit": self.rng.choice([0, 2, 5, count]), "busy": 1, "linger_seconds": 60, "claim_key": self.key()}
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            step = self.send(tick, results, **more)
        taken_over = {job.id for job in step.jobs}
        running[:] = [*(job for job in running if job.id not in taken_over), *step.jobs]

    def send(self, tick: Tick, results: list[codec.Result], **more: Any) -> codec.Step:
        known: dict[str, Any] = {"lease_id": more["claim_key"], "owner": "worker"}
        completed = encode_completed(results) if results and self.by_step else None
        if completed:
            answer = self.world.call("step", tick_id=tick.id, **completed, **more)
            known["completed"] = completed["ids"]
        else:
            encoded = [encode_result(result) for result in results]
            answer = self.world.call("advance_tick", tick_id=tick.id, results=encoded, **more)
        step = codec.decode_step(answer, **known)
        self.see(step)
        return step

    def see(self, step: codec.Step) -> None:
        """In the order of ids: a step has what it takes over behind what it claims."""
        jobs, settled = (tuple(sorted(rows, key=lambda row: row.id)) for rows in (step.jobs, step.settled))
        lists = {name: tuple(getattr(step, name)) for name in ("opened", "closed", "schedules", "maintenance")}
        self.seen.append(replace(step, jobs=jobs, settled=settled, **lists))

    def result(self, job: Job) -> codec.Result:
        """The next jobs are due a little later: a step claims before it enqueues, and then what is missing."""
        outcome: Outcome = Complete()
        kind = 1 if job.interrupted else self.rng.choices([0, 1, 2, 3, 4], [50, 3, 10, 10, 5])[0]
        if kind == 1:
            return done(job, Retry(delay=1, error="TransientError: no"), trips=3)
        if kind == 2:
            following = tuple(NextJob(stage=stage, delay_seconds=0.001) for stage in ("payment", "email"))
            outcome = Complete(context={"seen": job.id}, next=following)
        elif kind == 3:
            outcome = Complete(detail={"status": 200}, next=(NextJob(stage="email", dedup_key="x", delay_seconds=2),))
        elif kind == 4:
            called = NextJob(stage="http_call", circuit="http_call:a", payload={"a": 1}, priority=1, delay_seconds=0.5)
            outcome = Complete(next=(called,))
        return done(job, outcome)

    def by_hand(self) -> None:
        """An operator takes a run away, or gives a lease back that has ended."""
        change = self.rng.choice(["status = 'queued'", "lease_expires_at = scheduled_at"])
        self.world.run(
            f"update public.giftcard_jobs set {change} where id = (select min(id) from public.giftcard_jobs"
            " where status = 'running')"
        )

    def hold(self) -> None:
        """A pause, its end, a limit or a circuit that opens."""
        self.world.run(
            self.rng.choice(
                [
                    "insert into public.giftcard_stages (stage, paused_at) values ('email', '2030-01-01')"
                    " on conflict (stage) do update set paused_at = excluded.paused_at",
                    "update public.giftcard_stages set paused_at = null",
                    "insert into public.giftcard_limits (kind, name, runs) values ('stage', 'email', 1)"
                    " on conflict do nothing",
                    "delete from public.giftcard_limits",
                    "insert into public.giftcard_circuits (circuit, state, open_until)"
                    " values ('http_call:a', 'open', '2035-01-01 12:00:02') on conflict do nothing",
                    "update public.giftcard_circuits set failures = 2 where circuit = 'payment' and state = 'closed'",
                ]
            )
        )


def contents(world: World) -> dict[str, list[Row]]:
    """All rows of all tables, but when they were written by the server's clock."""
    tables = world.rows("select tablename as name from pg_tables where schemaname = 'public'")
    rows = {t["name"]: world.rows(f"select to_jsonb(t) as row from public.{t['name']} t") for t in tables}
    return {name: sorted((still(row["row"]) for row in found), key=str) for name, found in rows.items()}


def still(row: Row) -> Row:
    """The row with one word for all times of the server's own clock, which is decades behind that of the history.

    And as a set what a tick has claimed last, and without what it knows of the queues: a step may know one more that
    has nothing left.
    """
    if "cursors" in row:
        row |= {"claim_ids": sorted(row["claim_ids"] or []), "scanned_at": None, "cursors": None}
    return {name: "now" if str(value).startswith("202") and "T" in str(value) else value for name, value in row.items()}


def played(world: World, seed: int, *, by_step: bool) -> tuple[list[Any], dict[str, list[Row]]]:
    """What a history sees and leaves behind. All of it is undone."""
    now = world.now
    with world.connection.transaction(force_rollback=True):
        for sequence in world.rows("select sequencename as name from pg_sequences where schemaname = 'public'"):
            world.run(f"alter sequence public.{sequence['name']} restart")
        history = History(world, seed, by_step=by_step)
        history.play()
        world.now = now
        return history.seen, contents(world)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_ways_do_the_same(world: World, seed: int) -> None:
    seen, rows = played(world, seed, by_step=False)
    seen_by_step, rows_by_step = played(world, seed, by_step=True)
    for number, (one, other) in enumerate(zip(seen, seen_by_step, strict=True)):
        assert one == other, f"call {number} of {len(seen)}"
    for table in rows:
        assert rows_by_step[table] == rows[table], table
