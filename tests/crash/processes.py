"""A worker as its test sees it."""

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash import worker

# It imports everything once and forks each worker, in 20 ms instead of two seconds. It ends with the tests' process.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.crash.warm"])


def owner(pid: int) -> str:
    """A process as `lock_owner` names it."""
    return f"{socket.gethostname()}:{pid}"


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> float:
    """Until it is so; how long that took, in seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return time.monotonic() - began


class TickFailed(AssertionError):
    """A tick that the database failed, with the words that it ended with."""


class Worker:
    """`tests.crash.worker` and its child of the moment. `deaths`: the children that SIGKILL has ended, by pid."""

    def __init__(self, kind: str, folder: str, *, environment: dict[str, str], log: Path) -> None:
        self.log = log
        self.deaths: list[int] = []
        self.pid: int | None = None
        self._tick = 0
        its_orders, self._orders = _PROCESSES.Pipe(duplex=False)
        self._answers, its_answers = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(
            target=worker.main, args=(kind, folder, its_orders, its_answers, environment, str(log)), daemon=True
        )
        self._process.start()
        its_orders.close()
        its_answers.close()

    def await_ready(self) -> None:
        """It has a child that can tick at once."""
        while self.pid is None:
            self._listen(timeout=60)

    def begin_tick(self, **options: Any) -> None:
        """Tells it to tick; does not wait."""
        self._tick += 1
        os.write(self._orders.fileno(), json.dumps([self._tick, options]).encode() + b"\n")

    def answer(self, *, timeout: float = 60) -> dict[str, Any] | None:
        """The report of its tick; None: it was killed. Whoever ends in any other way fails the test.

        Raises:
            TickFailed: the tick ended with an error of the database's.
        """
        while True:
            said = self._listen(timeout=timeout)
            if "killed" in said:
                return None
            if said.get("tick") == self._tick:
                if "failed" in said:
                    raise TickFailed(said["failed"])
                return dict(said["report"])

    def tick(self, **options: Any) -> dict[str, Any] | None:
        """Ticks, and waits for what comes of it."""
        self.begin_tick(**options)
        return self.answer()

    def signal(self, number: int) -> None:
        """To the child that lives now, if one does."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self) -> int:
        """Lets it leave by itself; its exit code."""
        self._orders.close()
        return self.wait(timeout=60)

    def wait(self, *, timeout: float) -> int:
        """Its exit code, once it has left by itself."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, self._story(f"did not end within {timeout} s")
        return self._process.exitcode

    def destroy(self) -> None:
        """Whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.join(10)
        self._orders.close()
        self._answers.close()

    def _listen(self, *, timeout: float) -> dict[str, Any]:
        """The next thing it says."""
        assert self._answers.poll(timeout), self._story(f"said nothing for {timeout} s")
        try:
            said: dict[str, Any] = self._answers.recv()
        except EOFError:
            self._process.join(10)
            raise AssertionError(self._story(f"ended by itself with exit code {self._process.exitcode}")) from None
        if "killed" in said:
            self.deaths.append(said["killed"])
            self.pid = None
        self.pid = said.get("ready", self.pid)
        return said

    def _story(self, what: str) -> str:
        return f"worker {self.pid} {what}; it logged:\n{self.log.read_text()[-3000:]}"
