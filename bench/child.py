"""Runs an operation of a contender in processes of its own.

The protocol, the same for Python and Node: a process connects, prints `ready`, waits for a line, works, and prints one
line of JSON: {"count", "began", "ended", "cpu"}, times in seconds of the clock that all processes share.
"""

import contextlib
import importlib
import json
import subprocess
import sys
import threading
from typing import IO, Any

from bench.counters import Counters
from bench.measure import Sample, Watch
from bench.node import is_node, node_command
from dev import ROOT

_LAST_WORDS = 4_000
# Seconds after which an operation is given up: the slowest takes a quarter of it on a quiet machine.
_LONGEST = 240.0


def install(contender: str, url: str) -> None:
    """Install a contender's schema."""
    process = _Process(contender, "install", url)
    process.ended()


def measured(contender: str, operation: str, url: str, *, processes: int = 1, **options: Any) -> Sample:
    """Run an operation in this many processes at once, and return the sample of all together."""
    running = [_Process(contender, operation, url, **options) for _ in range(processes)]
    watchdog = threading.Timer(_LONGEST, lambda: [process.stop() for process in running])
    watchdog.start()
    try:
        counters = Counters(url)
        for process in running:
            process.line()
        counters.begin()
        for process in running:
            process.go()
        results = [json.loads(process.line()) for process in running]
        counters.pause()
        for process in running:
            process.ended()
    finally:
        watchdog.cancel()
        for process in running:
            process.kill()
    seconds = max(result["ended"] for result in results) - min(result["began"] for result in results)
    return Sample(
        count=sum(result["count"] for result in results),
        seconds=seconds,
        client_cpu=sum(result["cpu"] for result in results),
        server=counters.end(),
    )


class _Process:
    """A process with an operation. What it writes to standard error is read, as a platform reads a log."""

    def __init__(self, contender: str, operation: str, url: str, **options: Any) -> None:
        self._name = f"{contender} {operation}"
        arguments = [operation, url, *(f"{name}={json.dumps(value)}" for name, value in options.items())]
        python = [sys.executable, "-m", "bench.child", contender]
        command = (node_command(contender) if is_node(contender) else python) + arguments
        self._process = subprocess.Popen(  # noqa: S603 - our own scripts
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._last = b""
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def line(self) -> str:
        """Return the next line of its output. Raise RuntimeError if there is none."""
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line:
            raise self._failed()
        return line.decode()

    def go(self) -> None:
        """Open the gate."""
        if self._process.stdin:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def ended(self) -> None:
        """Wait for its end. Raise RuntimeError if it failed."""
        if self._process.wait():
            raise self._failed()

    def stop(self) -> None:
        """Kill it, from another thread."""
        self._process.kill()

    def kill(self) -> None:
        """Make sure that it has ended, and close its pipes."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _failed(self) -> RuntimeError:
        self._process.wait()
        self._reader.join()
        return RuntimeError(f"{self._name} failed:\n{self._last.decode(errors='replace')}")

    def _read(self, pipe: IO[bytes]) -> None:
        while chunk := pipe.read1(65_536):  # type: ignore[attr-defined]
            self._last = (self._last + chunk)[-_LAST_WORDS:]


def main(contender: str, operation: str, url: str, *options: str) -> None:
    """Run the operation, in the child."""
    arguments = {name: json.loads(value) for name, _, value in (option.partition("=") for option in options)}
    module = importlib.import_module(f"bench.contenders.{contender}")
    if operation == "install":
        module.install(url)
        return
    watch = Watch(gate=True)
    count = getattr(module, operation)(url, watch=watch, **arguments)
    sys.stdout.write(json.dumps(watch.result(count)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
