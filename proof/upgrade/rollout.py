"""The steps of an upgrade and back, while orders come in and ticks run all the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from dev import ROOT
from lib.store.store import CODE_VERSION
from proof.upgrade import facts
from proof.upgrade.fleet import Fleet, Process, Refused
from proof.upgrade.migrator import Migrator
from proof.upgrade.release import next_release
from proof.upgrade.stream import Stream
from proof.upgrade.waits import Waits, watched

OLD, NEW = CODE_VERSION, CODE_VERSION + 1
# Seconds that a tick may wait for a lock of a migration: a call of a tick gives up after 2 s.
LONGEST_WAIT = 2.0
# Seconds without a new mail after which something is broken; after which a process is no longer too early.
_STANDSTILL, _GRACE = 60.0, 1.0
_LOOK_SECONDS = 0.05


Say = Callable[[str], None]


class Broken(Exception):
    """What has gone wrong, line by line."""


@dataclass(slots=True)
class Figures:
    """What was measured. Times in seconds; `spans`: each try of the migrator, from when to when (monotonic)."""

    waits: Waits = field(default_factory=Waits)
    spans: list[tuple[float, float]] = field(default_factory=list)
    waiting_receipts: int = 0
    waiting_for: str = ""
    seconds: float = 0.0


class Rollout:
    """One upgrade, over an empty database. `orders`: at least, five jobs each. `size`: processes of a version.

    `longest_wait`: the seconds that a tick may wait for a lock of the migrations. `fault`: one of `release.FAULTS`.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        orders: int,
        size: int = 3,
        longest_wait: float = LONGEST_WAIT,
        fault: str | None = None,
        say: Say = print,
    ) -> None:
        self.figures = Figures()
        self.mailed = 0
        self._url, self._orders, self._size, self._say = url, orders, size, say
        self._longest_wait = longest_wait
        self._next = next_release(folder / "next", fault=fault)
        self._connection = psycopg.connect(url, autocommit=True)
        self._migrated_at: float | None = None
        self._moved_at = time.monotonic()
        self.fleet = Fleet({OLD: ROOT, NEW: self._next}, folder, **facts.environment(url, folder))
        self._stream = Stream(orders)

    def run(self) -> list[str]:
        """Carry out all steps. Return what is wrong in the end; nothing, if all is well."""
        began = time.monotonic()
        try:
            early = self._begin()
            self._migrate(early)
            self._deploy()
            self._roll_back()
            self._deploy_again()
        except Broken as broken:
            return str(broken).splitlines()
        finally:
            self.figures.seconds = time.monotonic() - began
        lines = facts.broken(self._connection, self.fleet, self._stream.names, new=NEW)
        return lines + facts.differences(self._url)

    def close(self) -> None:
        """End all processes and connections."""
        self.fleet.close()
        self._connection.close()

    # The steps

    def _begin(self) -> Process:
        self._say(f"version {OLD} alone, and a process of version {NEW} that the schema refuses")
        self._start(*[OLD] * self._size)
        self._until(0.1)
        (early,) = self._start(NEW)
        self._wait(lambda: len(early.refused) >= 2, "the process that came too early is refused")
        return early

    def _migrate(self, early: Process) -> None:
        self._say("the migrations are applied; another session is in the way of their first try")
        migrator = Migrator(self._next, self._url)
        self.figures.spans = migrator.spans
        with watched(self._url) as waits:
            self.figures.waits = waits
            migrator.start()
            try:
                self._wait(lambda: migrator.has_ended, "the migrator ends")
            except Broken as broken:
                raise Broken("\n".join([*self._too_long(), str(broken)])) from None
            finally:
                migrator.join()
        self._migrated_at = time.monotonic()
        problems = [f"the migrations were not applied: {migrator.problem}"] if migrator.problem else []
        if problems := problems + self._too_long():
            raise Broken("\n".join(problems))
        self._wait(lambda: early.ticks > len(early.refused), f"version {NEW} begins on the new schema")
        self._until(0.25)

    def _too_long(self) -> list[str]:
        wait, most = self.figures.waits.of_ticks, f"at most {self._longest_wait:g} s are fine"
        return [f"a tick waited {wait:.1f} s for a lock of the migrations: {most}"] if wait > self._longest_wait else []

    def _deploy(self) -> None:
        self._say(f"version {NEW} starts, one process after another, beside version {OLD}")
        for number in range(1, self._size):
            self._start(NEW)
            self._until(0.25 + 0.05 * number)
        self._until(0.45)
        self._say(f"version {OLD} stops, one process after another")
        for process in self.fleet.running(OLD):
            self._stop(process)
            self._until(self.mailed / self._orders + 0.01)
        self._until(0.6)

    def _roll_back(self) -> None:
        self._say(f"roll back: version {OLD} again, on the schema of version {NEW}")
        self._start(*[OLD] * max(1, self._size - 1))
        self._wait(lambda: self._value(facts.RECEIPTS_TO_COME) > 0, "receipts wait for their time")
        self._stop(*self.fleet.running(NEW))
        self._until(0.8)
        self._wait(lambda: self._value(facts.RECEIPTS_OVERDUE) > 0, "receipts are overdue")
        ticks = sum(one.ticks for one in self.fleet.processes)
        self._wait(lambda: sum(one.ticks for one in self.fleet.processes) > ticks + 4, f"version {OLD} ticks")
        self.figures.waiting_receipts = self._value(facts.RECEIPTS_UNTOUCHED)
        if self.figures.waiting_receipts != self._value(facts.RECEIPTS_OPEN):
            raise Broken(
                f"receipts do not just wait while version {OLD} runs alone: {facts.receipts(self._connection)}"
            )
        self.figures.waiting_for = facts.why_one_waits(self._connection, self._url)

    def _deploy_again(self) -> None:
        self._say(f"version {NEW} again")
        self._start(*[NEW] * max(1, self._size - 1))
        self._until(0.9)
        self._stop(*self.fleet.running(OLD))
        self._until(1.0)
        self._stream.ended = True
        self._wait(lambda: self.mailed == len(self._stream.names), "the last mails")
        self._wait(lambda: self._value(facts.OPEN_JOBS) == 0, "the last receipts")
        self._stop(*self.fleet.running())

    # What a step consists of

    def _start(self, *versions: int) -> list[Process]:
        processes = [self.fleet.start(version) for version in versions]
        self._wait(lambda: all(one.ready.is_set() for one in processes), "the processes start")
        return processes

    def _stop(self, *processes: Process) -> None:
        for process in processes:
            process.ask_to_end()
        for process in processes:
            process.end()
            self._stream.repeat(process.handed[-self._stream.backlog :])

    def _until(self, share: float) -> None:
        """Go on until this share of the orders is mailed."""
        self._wait(lambda: self.mailed >= share * self._orders, f"{share:.0%} of the orders are mailed")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self._moved_at = time.monotonic()
        while not condition():
            self._feed()
            self._check()
            if time.monotonic() - self._moved_at > _STANDSTILL:
                open_jobs = self._connection.execute(facts.OPEN).fetchall()
                raise Broken(f"no mail for {_STANDSTILL:g} s, waiting until {what}; open jobs: {open_jobs}")
            time.sleep(_LOOK_SECONDS)

    def _feed(self) -> None:
        mailed = self._value(facts.MAILED)
        if mailed > self.mailed:
            self.mailed, self._moved_at = mailed, time.monotonic()
        ready = [one for one in self.fleet.running() if one.ready.is_set()]
        able = [one for one in ready if one.version == OLD or self._migrated_at is not None]
        self._stream.hand(able, open_orders=len(self._stream.names) - mailed)

    def _check(self) -> None:
        """Raise Broken for a process that has ended by itself, a tick that was refused, a run that has failed."""
        lines = [
            f"{one.story()} has ended by itself" for one in self.fleet.processes if not one.runs and not one.stopped
        ]
        for process in self.fleet.processes:
            refused = [one for one in process.refused if not self._is_expected(process, one)]
            lines += [f"{one.what}: {one.problem}" for one in refused]
        lines += [row[0] for row in self._connection.execute(facts.FAILED_RUNS.encode()).fetchall()]
        if lines:
            causes = [str(row[0]) for row in self._connection.execute(facts.FAILED_TICKS.encode()).fetchall()]
            raise Broken("\n".join([*lines[:5], *causes]))

    def _is_expected(self, process: Process, refused: Refused) -> bool:
        is_early = self._migrated_at is None or refused.at < self._migrated_at + _GRACE
        return process.version == NEW and is_early and "run the migrations" in refused.problem

    def _value(self, query: str) -> int:
        row = self._connection.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])
