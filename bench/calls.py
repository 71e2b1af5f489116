"""Database calls, counted at the wire."""

from typing import Any

from bench.contenders import ours
from bench.server import fresh
from bench.table import aim, title
from dev.postgres import Embedded
from lib.store.connect import connect
from lib.store.store import Store
from lib.store.wire import Wire
from lib.tick.tick import run_tick


class _Counting:
    """Counts the calls of a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.count = 0

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.count += 1
        return self._wire.call(function, repeat=repeat, **arguments)

    def close(self) -> None:
        self._wire.close()


def counted(server: Embedded) -> None:
    """Count the calls of an idle tick, and of a tick with ten empty jobs."""
    title("Database calls")
    url = fresh(server)
    ours.install(url)
    aim("an idle tick", calls_of_a_tick(url, jobs=0), at_most=1)
    aim("a tick of ten jobs at concurrency 10", calls_of_a_tick(url, jobs=10), at_most=3)


def calls_of_a_tick(url: str, *, jobs: int) -> int:
    """Return the number of calls of a tick that runs this many jobs, without a limit."""
    settings = ours.settings_for(url, concurrency=10)
    store = connect(settings)
    # The first tick does the maintenance, which is not due again for ten minutes.
    run_tick(store, ours.REGISTRY, settings, source="bench", linger=False)
    if jobs:
        store.enqueue(ours.jobs(range(jobs)))
    wire = _Counting(store._wire)
    report = run_tick(Store(wire), ours.REGISTRY, settings, source="bench", limit=1_000, linger=False)
    store.close()
    if report.completed != jobs:
        raise RuntimeError(f"{report.completed} of {jobs} jobs completed")
    return wire.count
