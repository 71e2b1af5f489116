"""One seed: a night of orders, ticks and faults, the morning that heals it, and what must be true then."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lib.config.settings import Settings
from lib.errors import GiftcardError
from lib.job import Job
from lib.store.store import Store
from lib.telemetry import events
from lib.tick.tick import run_tick
from lib.tick.waking import WakingStore
from proof.simulation import cast, morning
from proof.simulation.database import Database
from proof.simulation.faults import Faults
from proof.simulation.machine import Machine, Process
from proof.simulation.outside import Outside, reached
from proof.simulation.plan import Plan, plan_of, settings_for
from proof.simulation.seams import replaced
from proof.simulation.stages import deployments
from proof.simulation.watch import Watch
from proof.simulation.wire import SimulatedWire, place


@dataclass
class Night:
    """All that a seed is made of."""

    seed: int
    plan: Plan
    machine: Machine
    faults: Faults
    outside: Outside
    database: Database
    settings: Settings
    watch: Watch
    log: io.StringIO = field(default_factory=io.StringIO)
    acknowledged: dict[str, int] = field(default_factory=dict)
    enqueued: set[str] = field(default_factory=set)
    by_hand: set[str] = field(default_factory=set)
    operated: set[str] = field(default_factory=set)
    touched: set[int | None] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)
    refunded: set[str] = field(default_factory=set)
    begun: list[Job] = field(default_factory=list)
    deeds: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    ticks: int = 0

    def __post_init__(self) -> None:
        self.registries = deployments(self.begun.append, self._work, self._keep)
        self.outside.call = self._woken
        self.watch.acts.touch = self.touch

    def store(self, process: Process) -> Store:
        """Return a store of a process."""
        wire = SimulatedWire(self.machine, process, self.faults, self.database, self.watch)
        store = Store(wire)
        return WakingStore.over(store, self.settings) if self.plan.wakes else store

    def process(self, name: str, *, ours: bool = True) -> Process:
        """Return a new process, by default of the deployment. The clock of its host may be wrong."""
        rng = Random(f"{self.seed} host of {name}")
        skew = rng.choice((0.0, 0.0, -8 * 3600.0, 8 * 3600.0)) if self.plan.level else 0.0
        return Process(self.machine, name, skew=skew, ours=ours)

    def function(self, name: str, *, delay: float = 0.0, **arguments: Any) -> None:
        """Start a function of the deployment that ticks, in the version that is deployed then."""
        process = self.process(name)

        def run() -> None:
            self.ticks += 1
            registry = self.registries[self.version()]
            self.watch.check_woken(wakes=self._is_quiet() and arguments["source"] == "cron")
            self.watch.ticking += 1
            with self.expecting_errors():
                report = run_tick(self.store(process), registry, self.settings, **arguments)
                self.machine.note(f"tick ended: {report.stopped_because}, {report.started} started")
                self.watch.check_ended(f"simulated:{process.pid}", self.log.getvalue())
                self.watch.check_limit(report.started, arguments["limit"])
                if not report.duplicate:
                    self.watch.ended_stages = registry.ready(self.settings)
            self.watch.ticking -= 1
            self.watch.quiet_since = self.machine.now

        self.machine.spawn(process, run, name=name, delay=delay)

    def touch(self, job_id: int | None, flow: str) -> None:
        """Note that an operator changes a job (None: cancels one) of a flow: what becomes of it has this reason."""
        self.touched.add(job_id)
        self.operated.add(flow)
        self.by_hand.add(flow)

    def version(self) -> int:
        """Return the version that is deployed now."""
        return [version for at, version in self.plan.versions if at <= self.machine.now][-1]

    @contextmanager
    def expecting_errors(self) -> Iterator[None]:
        """Note an error that a caller of the product has to expect."""
        try:
            yield
        except GiftcardError as error:
            self.machine.note(f"{type(error).__name__}: {str(error)[:120]}")

    def events(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def facts(self) -> dict[str, int]:
        """Return what happened, in numbers."""
        kinds = [name.partition(" #")[2].partition(" ")[2] for name in self.faults.happened if " #" in name]
        counted = {kind: kinds.count(kind) for kind in ("kill", "freeze", "request lost", "answer lost")}
        return {"ticks": self.ticks, "calls": self.watch.calls, "faults": len(kinds), **counted}

    def _is_quiet(self) -> bool:
        """Return whether every wake arrives, and what is due has a tick soon."""
        return self.plan.wakes and not self.plan.level and self.faults.active

    def _work(self, seconds: float) -> None:
        place(self.machine, self.faults, "in a handler")
        self.machine.pause(seconds)

    def _keep(self, job: Job, result: dict[str, Any]) -> None:
        self.deeds.append((job.id, result))

    def _woken(self) -> None:
        if self._is_quiet():
            self.watch.check_wake()
        number = next(self.machine.pids)
        self.function(f"woken {number}", source="wake", limit=2 + number % 2 * 8, budget=30, linger=True)


def play(seed: int, database: Database, *, left_out: frozenset[str] = frozenset()) -> Night:
    """Play a seed, and return the night with its `machine.failures`."""
    plan = plan_of(seed)
    machine = Machine(seed)
    faults = Faults(machine, plan.level, plan.vendor_level, left_out)
    night = Night(
        seed=seed,
        plan=plan,
        machine=machine,
        faults=faults,
        outside=Outside(machine, faults),
        database=database,
        settings=settings_for(plan),
        watch=Watch(machine, database, plan.limits, int(plan.options["giftcard_circuit_threshold"])),
    )
    with ExitStack() as stack:
        stack.enter_context(database.night(seed))
        stack.enter_context(replaced(machine))
        stack.enter_context(reached(night.outside))
        stack.enter_context(_logged_to(night.log))
        try:
            cast.enter(night)
            # Woken ticks follow each other for as long as anything is due within a minute.
            machine.run(until=60.0 * (plan.minutes + 1))
            morning.heal(night)
            machine.failures += morning.wrong(night)
        finally:
            machine.close()
    return night


@contextmanager
def _logged_to(log: io.StringIO) -> Iterator[None]:
    before = events.LOG.handlers, events.LOG.propagate, events.LOG.level
    events.LOG.handlers, events.LOG.propagate = [events._Lines(log, events._Json())], False
    events.LOG.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        events.LOG.handlers, events.LOG.propagate = before[0], before[1]
        events.LOG.setLevel(before[2])
