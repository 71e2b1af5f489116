"""The processes of both versions as the proof sees them."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_END_SECONDS = 60


class Refused(NamedTuple):
    """A tick or an order that did not end well. `at`: `time.monotonic()`."""

    at: float
    what: str
    problem: str


class Call(NamedTuple):
    """A call of a process to the database. `began`: CLOCK_MONOTONIC's, which all processes share."""

    function: str
    began: float
    seconds: float


class Process:
    """A process of `proof.upgrade.worker`, started in the folder of its version."""

    def __init__(self, root: Path, *, version: int, environment: Mapping[str, str], log: Path) -> None:
        self.version = version
        self.ticks = 0
        self.stopped = False
        self.refused: list[Refused] = []
        self.calls: list[Call] = []
        self.ready = threading.Event()
        self.handed: list[dict[str, Any]] = []
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "proof.upgrade.worker"],
                cwd=root, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def owner(self) -> str:
        """The process as `lock_owner` names it."""
        return f"{socket.gethostname()}:{self._process.pid}"

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def hand(self, order: dict[str, Any]) -> None:
        """Let it take in an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self.handed.append(order)

    def ask_to_end(self) -> None:
        """Send SIGTERM: the tick under way ends, and the process with it."""
        self.stopped = True
        self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Wait until it has ended. Raise AssertionError if it does not end well."""
        code = self._process.wait(_END_SECONDS)
        self._reader.join(_END_SECONDS)
        assert code == 0, f"{self.story()} ended with exit code {code}"

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self.runs:
            self._process.kill()
        self._process.wait(_END_SECONDS)

    def story(self) -> str:
        """Name the process, and the end of its log."""
        return f"process {self._process.pid} of version {self.version} (log: {self._log.read_text()[-2000:]})"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        if "pid" in line:
            assert line["code_version"] == self.version, "the process runs the code of another folder"
            self.ready.set()
            return
        if "order" in line:
            self._refuse(f"{line['order']} was refused", line["problem"])
            return
        self.ticks += 1
        self.calls += [Call(*call) for call in line["calls"]]
        if line["status"] != 200:
            self._refuse(f"a tick was answered {line['status']}", line["problem"])

    def _refuse(self, what: str, problem: str) -> None:
        self.refused.append(Refused(time.monotonic(), f"{what} by version {self.version}", problem))


class Fleet:
    """All processes that were started. `roots`: the folder of each version."""

    def __init__(self, roots: Mapping[int, Path], folder: Path, **environment: str) -> None:
        self.processes: list[Process] = []
        self._roots = roots
        self._folder = folder
        self._environment = {"PATH": os.environ["PATH"], **environment}

    def start(self, version: int) -> Process:
        """Start one more process, without waiting for it."""
        log = self._folder / f"process-{len(self.processes) + 1}.log"
        process = Process(self._roots[version], version=version, environment=self._environment, log=log)
        self.processes.append(process)
        return process

    def running(self, version: int | None = None) -> list[Process]:
        """Return the processes that have not ended, of one version or all."""
        return [one for one in self.processes if one.runs and version in (None, one.version)]

    def version_of(self, owner: str) -> int | None:
        """Return the version of the process that `lock_owner` names."""
        return next((one.version for one in self.processes if one.owner == owner), None)

    def close(self) -> None:
        """End what still runs."""
        for process in self.processes:
            process.kill()
