"""Measurements: wall time, and the CPU time of server and client."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A measurement: `count` items took `seconds`. CPU in seconds; `server_cpu` is None where it is unknown."""

    count: int
    seconds: float
    server_cpu: float | None = None
    client_cpu: float | None = None

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


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
    """Measures the time between `start` and `stop`, and the CPU time of all processes of the server.

    Other load on the machine affects wall time, but CPU time far less.
    """

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            self._postmaster = _parent(connection.info.backend_pid)
        self._seconds: float | None = None

    def start(self) -> None:
        """Start, with all connections open."""
        self._server = _server_cpu(self._postmaster)
        self._client = time.process_time()
        self._began = time.perf_counter()

    def mark(self) -> None:
        """Set the end time, before any cleanup."""
        self._seconds = time.perf_counter() - self._began

    def stop(self, count: int) -> Sample:
        """Return the sample. Call this with the connections open: the CPU of ended processes is unknown."""
        seconds = time.perf_counter() - self._began if self._seconds is None else self._seconds
        client = time.process_time() - self._client
        server = _server_cpu(self._postmaster)
        used = None
        if server is not None and self._server is not None:
            used = sum(spent - self._server.get(pid, 0) for pid, spent in server.items()) / 1e9
        return Sample(count=count, seconds=seconds, server_cpu=used, client_cpu=client)


def backend_cpu(pid: int) -> int | None:
    """Return a process's CPU time in nanoseconds, or None where it is unknown."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _parent(pid: int) -> int:
    """Return the parent's pid, or 0 without /proc."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    # The process name, in parentheses, may contain any characters.
    return int(text.rpartition(")")[2].split()[1])


def _server_cpu(postmaster: int) -> dict[int, int] | None:
    """Return the CPU time in nanoseconds of each living child of the server."""
    if not postmaster:
        return None
    pids = [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit()]
    used = {pid: backend_cpu(pid) for pid in pids if _parent(pid) == postmaster}
    return {pid: spent for pid, spent in used.items() if spent is not None} or None
