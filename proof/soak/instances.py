"""The processes that serve one address: one lives as long as the soak, the others die and are started again."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from dev import ROOT
from proof.soak.plan import Plan

_HOST = "127.0.0.1"
# Seconds after which one that got SIGTERM should have ended.
_PATIENCE = 20.0


class Instances:
    """`kills`: processes that SIGKILL has ended. The log of each place holds the events of all its processes."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.kills = 0
        self._plan = plan
        self._listener = socket.create_server((_HOST, 0), backlog=128)
        self._listener.setblocking(False)  # they all wait for it; one that comes second waits on
        self._port = self._listener.getsockname()[1]
        self._environment: dict[str, str] = {}
        self.logs = [folder / f"instance-{number + 1}.log" for number in range(plan.instances)]
        self._files: list[IO[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the application."""
        return f"http://{_HOST}:{self._port}"

    def start(self, environment: Mapping[str, str]) -> None:
        """Start all."""
        self._environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **environment}
        self._files = [log.open("ab") for log in self.logs]
        self._processes = [self._started(number) for number in range(self._plan.instances)]

    def pids(self) -> dict[int, int]:
        """Return the process of each place."""
        with self._lock:
            return {number: process.pid for number, process in enumerate(self._processes)}

    def mortal(self) -> dict[int, int]:
        """Return the places by process of those that may be killed: all but the first."""
        return {pid: number for number, pid in self.pids().items() if number > 0}

    def kill(self, number: int) -> None:
        """Kill the process of a place, and start its successor."""
        with self._lock:
            self._processes[number].kill()
            self._processes[number].wait()
            self._processes[number] = self._started(number)
            self.kills += 1

    def replace(self, number: int) -> None:
        """Start the successor of a process, as a deployment does, and end that one with SIGTERM."""
        with self._lock:
            old, self._processes[number] = self._processes[number], self._started(number)
        old.terminate()
        try:
            old.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            old.kill()
            old.wait()
            raise

    def ended(self) -> list[int]:
        """Return the places whose processes have ended by themselves."""
        with self._lock:
            return [number + 1 for number, process in enumerate(self._processes) if process.poll() is not None]

    def close(self) -> None:
        """End all: what they do now is nothing that counts."""
        for process in self._processes:
            process.kill()
            process.wait()
        for file in self._files:
            file.close()
        self._listener.close()

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        fd = self._listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", "proof.soak.application", str(fd), str(self._port)],
            cwd=ROOT,
            env=self._environment,
            pass_fds=[fd],
            stdout=subprocess.DEVNULL,
            stderr=self._files[number],
            start_new_session=True,  # Ctrl-C ends the soak, which ends them
        )
