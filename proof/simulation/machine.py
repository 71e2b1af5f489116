"""The machine of a simulation: processes and their threads as coroutines, in virtual time."""

import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

# Midnight of no particular day.
EPOCH = datetime(2031, 3, 4, tzinfo=UTC)


class Process:
    """A process: it lives, freezes and dies with all of its threads.

    `skew`: how wrong its host's clock is, in seconds. `ours`: one of the deployment; others call it, and outlive it.
    """

    def __init__(self, machine: "Machine", name: str, *, skew: float = 0.0, ours: bool = True) -> None:
        self.machine = machine
        self.name = name
        self.skew = skew
        self.ours = ours
        self.pid = 1000 + next(machine.pids)
        self.dead = False
        self.frozen_until = 0.0
        self.rng = random.Random(f"{machine.seed} {name}")
        self.threads = itertools.count()

    def kill(self) -> None:
        """End it: none of its threads runs on."""
        self.dead = True

    def freeze(self, seconds: float) -> None:
        """Stop all of its threads for so long."""
        self.frozen_until = max(self.frozen_until, self.machine.now + seconds)


class Thread(greenlet):  # type: ignore[misc]
    """A coroutine of a process. `ticket`: which entry of the agenda wakes it; older ones are void."""

    def __init__(self, act: Callable[[], object], process: Process, name: str) -> None:
        super().__init__(act, parent=process.machine.hub)
        self.process = process
        self.name = name
        self.ticket = 0
        self.woken = False
        self.draws = itertools.count()
        self.rng = random.Random(f"{process.machine.seed} {name}")


class Machine:
    """Virtual time in seconds, and whose turn it is: the earliest first, then who asked first."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.hub = getcurrent()
        self.pids = itertools.count()
        self.trace: list[str] = []
        self.failures: list[str] = []
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Thread, int]] = []
        self._alive: list[Thread] = []
        self._over = False

    @property
    def moment(self) -> datetime:
        """The true time."""
        return EPOCH + timedelta(seconds=self.now)

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        me = getcurrent()
        name = me.name if isinstance(me, Thread) else "-"
        self.trace.append(f"{self.now:10.3f} {name}: {text}")

    def spawn(
        self, process: Process, act: Callable[[], object], *, name: str | None = None, delay: float = 0.0
    ) -> Thread:
        """Start a thread of a process, after a delay. What it raises is noted, and a failure of the simulation."""

        def run() -> None:
            try:
                act()
            except GreenletExit:
                raise
            except Exception as error:  # noqa: BLE001
                self.note(f"ended by {type(error).__name__}: {error}")
                self.failures.append(f"{thread.name} ended by {type(error).__name__}: {error}")

        thread = Thread(run, process, name or f"{process.name}/{next(process.threads)}")
        self._alive.append(thread)
        self._schedule(thread, self.now + delay)
        return thread

    def pause(self, seconds: float) -> None:
        """Let the thread wait for so long."""
        self.block(None, seconds)

    def block(self, waiters: list[Thread] | None, timeout: float | None) -> bool:
        """Let the thread wait until it is woken from `waiters`, or for `timeout` seconds. Return if it was woken."""
        me = self.thread()
        me.woken = False
        me.ticket += 1
        if timeout is not None:
            self._schedule(me, self.now + max(0.0, timeout))
        if waiters is not None:
            waiters.append(me)
        self._leave()
        if waiters is not None and me in waiters:
            waiters.remove(me)
        return me.woken

    def wake(self, waiters: list[Thread], count: int | None = None) -> None:
        """Wake those who wait longest, all of them by default."""
        for thread in waiters[:count]:
            waiters.remove(thread)
            thread.woken = True
            thread.ticket += 1
            self._schedule(thread, self.now)

    def thread(self) -> Thread:
        """Return the thread that runs."""
        me = getcurrent()
        assert isinstance(me, Thread), "the hub waits for nothing"
        return me

    def run(self, *, until: float = float("inf"), steps: int = 200_000) -> bool:
        """Run all threads until none waits any more. Return whether that was so before `until`."""
        for _ in range(steps):
            while self._agenda:
                at, _order, thread, ticket = self._agenda[0]
                if thread.ticket == ticket and not thread.dead and not thread.process.dead:
                    break
                heapq.heappop(self._agenda)
            if not self._agenda:
                return True
            if at > until:
                return False
            heapq.heappop(self._agenda)
            if thread.process.frozen_until > max(at, self.now):
                self._schedule(thread, thread.process.frozen_until)
                continue
            self.now = max(self.now, at)
            thread.switch()
        self.failures.append(f"no end after {steps} steps")
        return False

    def close(self) -> None:
        """End what was killed or still waits, so that nothing of it stays in memory."""
        self._over = True
        for thread in self._alive:
            for _ in range(20):  # a handler of the product catches everything, once or twice
                if thread.dead:
                    break
                thread.throw(GreenletExit)
        self._alive.clear()
        self._agenda.clear()

    def _schedule(self, thread: Thread, at: float) -> None:
        heapq.heappush(self._agenda, (at, next(self._order), thread, thread.ticket))

    def _leave(self) -> None:
        if self._over:
            raise GreenletExit
        self.hub.switch()
        if self._over:
            raise GreenletExit
