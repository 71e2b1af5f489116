"""What a measurement holds, and how it is taken: wall time, and the CPU that server and client burnt meanwhile."""

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
    """`count` things took `seconds`. CPU in seconds; `server_cpu` is None where the system does not tell it."""

    count: int
    seconds: float
    server_cpu: float | None = None
    client_cpu: float | None = None

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    def as_json(self) -> dict[str, Any]:
        """A plain object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of several figures, with the least and the greatest."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        return cls(median=statistics.median(figures), least=min(figures), most=max(figures))


class Watch:
    """Times what happens between `start` and `stop`, and reads the CPU of all processes of the server around it.

    Other work on the machine slows wall time down; it changes CPU time far less.
    """

    def __init__(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            self._postmaster = _parent(connection.info.backend_pid)
        self._seconds: float | None = None

    def start(self) -> None:
        """Call it when all is ready, connections opened."""
        self._server = _server_cpu(self._postmaster)
        self._client = time.process_time()
        self._began = time.perf_counter()

    def mark(self) -> None:
        """The moment that counts as the end, while things still have to be put away."""
        self._seconds = time.perf_counter() - self._began

    def stop(self, count: int) -> Sample:
        """Call it while the connections are still open: the CPU of a process is read from the living."""
        seconds = time.perf_counter() - self._began if self._seconds is None else self._seconds
        client = time.process_time() - self._client
        server = _server_cpu(self._postmaster)
        burnt = None
        if server is not None and self._server is not None:
            burnt = sum(spent - self._server.get(pid, 0) for pid, spent in server.items()) / 1e9
        return Sample(count=count, seconds=seconds, server_cpu=burnt, client_cpu=client)


def backend_cpu(pid: int) -> int | None:
    """Nanoseconds of CPU that a process has burnt so far; None where the system does not tell."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _parent(pid: int) -> int:
    """Its parent's number; 0 where there is no /proc."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    # The name, in brackets, may hold anything.
    return int(text.rpartition(")")[2].split()[1])


def _server_cpu(postmaster: int) -> dict[int, int] | None:
    """Nanoseconds by process, for every living child of the server."""
    if not postmaster:
        return None
    pids = [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit()]
    burnt = {pid: backend_cpu(pid) for pid in pids if _parent(pid) == postmaster}
    return {pid: spent for pid, spent in burnt.items() if spent is not None} or None
