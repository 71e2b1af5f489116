"""A worker as its test sees it."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dev import ROOT


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


class Worker:
    """`tests.crash.worker` and its child of the moment. `deaths`: the children that SIGKILL has ended, by pid."""

    def __init__(self, *arguments: str, environment: dict[str, str], log: Path) -> None:
        self.log = log
        self.deaths: list[int] = []
        self.pid: int | None = None
        self._tick = 0
        self._heard = b""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.worker", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environment,
                start_new_session=True,  # so that both end with one signal
            )

    def await_ready(self) -> None:
        """It has a child that can tick at once."""
        while self.pid is None:
            self._listen(timeout=30)

    def begin_tick(self, **options: Any) -> None:
        """Tells it to tick; does not wait."""
        self._tick += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([self._tick, options]).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, *, timeout: float = 60) -> dict[str, Any] | None:
        """The report of its tick; None: it was killed. Whoever ends in any other way fails the test."""
        while True:
            said = self._listen(timeout=timeout)
            if "killed" in said:
                return None
            if said.get("tick") == self._tick:
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
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(20)

    def wait(self, *, timeout: float) -> int:
        """Its exit code, once it has left by itself."""
        return self._process.wait(timeout)

    def destroy(self) -> None:
        """Whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _listen(self, *, timeout: float) -> dict[str, Any]:
        """The next thing it says."""
        assert self._process.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self._heard:
            heard, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            assert heard, self._story(f"said nothing for {timeout} s")
            more = os.read(self._process.stdout.fileno(), 65536)
            assert more, self._story(f"ended by itself with exit code {self._process.wait(10)}")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        if "killed" in said:
            self.deaths.append(said["killed"])
            self.pid = None
        self.pid = said.get("ready", self.pid)
        return said

    def _story(self, what: str) -> str:
        return f"worker {self.pid} {what}; it logged:\n{self.log.read_text()[-3000:]}"
