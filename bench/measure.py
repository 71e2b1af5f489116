"""Measurements: wall time, CPU of server and client, WAL, commits and rows; medians with minimum and maximum."""

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the server has done: CPU in seconds (None where it is unknown), bytes of WAL, commits, and rows."""

    cpu: float | None = None
    wal: int = 0
    commits: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A measurement: `count` items took `seconds`. `client_cpu`: that of all processes of the client, in seconds."""

    count: int
    seconds: float
    client_cpu: float | None = None
    server: Counted = Counted()

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of several figures, with minimum and maximum."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        return cls(median=statistics.median(figures), least=min(figures), most=max(figures))


class Watch:
    """Measures an operation in its own process, from `start` to the last `mark`, by a clock that all processes share.

    `gate`: `open` waits for a line on standard input, so that several processes begin together.
    """

    def __init__(self, *, gate: bool = False) -> None:
        self._gate = gate
        self._began: float | None = None
        self._ended = 0.0
        self._cpu = 0.0

    def open(self) -> None:
        """Report that all connections are open, and wait for the gate."""
        if self._gate:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            sys.stdin.readline()

    def start(self) -> None:
        """Start, unless it has started."""
        if self._began is None:
            self._cpu = time.process_time()
            self._began = time.perf_counter()

    def mark(self) -> None:
        """Set the end, to be set again by whatever ends later."""
        self._ended = time.perf_counter()

    def result(self, count: int) -> dict[str, float]:
        """Return the times of this process, and how much of the work it did."""
        ended = self._ended or time.perf_counter()
        began = ended if self._began is None else self._began
        return {"count": count, "began": began, "ended": ended, "cpu": time.process_time() - self._cpu}
