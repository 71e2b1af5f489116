"""Two connections that race for rows: the second is seen waiting for the first's lock."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.support.factory import World


class Race:
    """Two connections: `first` holds its transaction open, `second` runs in a thread."""

    def __init__(self, first: World, second: World, watcher: World, pool: ThreadPoolExecutor) -> None:
        self.first, self.second, self._watcher, self._pool = first, second, watcher, pool

    def second_waits(self, what: Callable[[World], Any]) -> Future[Any]:
        """Starts it and returns once it is seen waiting for a lock that the first holds."""
        future = self._pool.submit(what, self.second)
        first, second = (w.connection.info.backend_pid for w in (self.first, self.second))
        end = time.monotonic() + 10
        while not self._watcher.rows("select where %s = any(pg_blocking_pids(%s))", first, second):
            assert not future.done(), f"it did not wait: {future.result()}"
            assert time.monotonic() < end, "it never waited"
            time.sleep(0.005)
        return future

    def commit(self) -> None:
        self.first.connection.commit()
