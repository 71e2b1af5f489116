"""The real application with its clock, and a worker process to be killed."""

import importlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import httpx
from werkzeug.serving import make_server

from dev import ROOT
from lib.telemetry import events
from lib.web.services import Services, services

_HOST = "127.0.0.1"
_CALLERS = 2
_CALL_TIMEOUT = 60.0  # seconds
_GRACE = 3.0


@contextmanager
def application(log: IO[str]) -> Iterator[tuple[Services, str]]:
    """Serve the application of `api/index.py` as on Vercel; yield its services and its URL."""
    index: Any = importlib.import_module("api.index")  # by name, and late: it reads the environment
    own = services(index.create_app())
    _log_to(log, level=own.settings.giftcard_log_level)
    server = make_server(_HOST, 0, index.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="web", daemon=True)
    thread.start()
    try:
        yield own, f"http://{_HOST}:{server.port}"
    finally:
        own.shutdown.ask(timeout=_GRACE)
        server.shutdown()
        thread.join()
        own.store.close()


def _log_to(log: IO[str], *, level: str) -> None:
    """Write the application's log events to a file, as lines of JSON."""
    events.configure(readable=False, level=level)
    for handler in logging.getLogger("giftcards").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Clock:
    """Calls the cron endpoint like Vercel, but more often: two callers in turn, so that two ticks may overlap.

    More would not be faster on a small machine. `errors`: calls without a 200 response.
    """

    def __init__(self, url: str, *, per_second: float) -> None:
        self.calls = 0
        self.errors: list[str] = []
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {os.environ['CRON_SECRET']}", "User-Agent": "vercel-cron/1.0"},
            timeout=_CALL_TIMEOUT,
        )
        self._every = _CALLERS / per_second
        self._stop = threading.Event()
        self._callers = [
            threading.Thread(target=self._call, args=(at / per_second,), name=f"clock-{at}", daemon=True)
            for at in range(_CALLERS)
        ]

    def start(self) -> None:
        """Start, with a call at once."""
        for caller in self._callers:
            caller.start()

    def stop(self) -> None:
        """Stop, waiting briefly for pending calls."""
        self._stop.set()
        for caller in self._callers:
            if caller.ident is not None:
                caller.join(_GRACE)

    def _call(self, wait: float) -> None:
        while not self._stop.wait(wait):
            began = time.monotonic()
            try:
                response = self._client.get("/api/cron/giftcard-jobs")
                if response.status_code != 200:
                    self.errors.append(f"{response.status_code} {response.text[:200]}")
            except httpx.HTTPError as error:
                if not self._stop.is_set():
                    self.errors.append(f"{type(error).__name__}: {error}")
            self.calls += 1
            wait = max(0.0, began + self._every - time.monotonic())


class Worker:
    """A process that runs `flask jobs tick`, like a second function."""

    def __init__(self, log: IO[str], settings: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "flask", "--app", "api.index", "jobs", "tick", "--limit", "1000", "--linger"]
        self._process = subprocess.Popen(  # noqa: S603
            command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=log
        )
        self.pid = self._process.pid
        self.owner = f"{socket.gethostname()}:{self.pid}"
        """The `lock_owner` of its jobs."""

    @property
    def has_ended(self) -> bool:
        """Whether it has exited or was killed."""
        return self._process.poll() is not None

    def kill(self) -> int:
        """Kill it with SIGKILL and return its exit code, -9."""
        self._process.kill()
        return self._process.wait()


@contextmanager
def worker(log: IO[str], *, settings: Mapping[str, str]) -> Iterator[Worker]:
    """Yield the process, with its own settings; it is killed at the end of the context."""
    process = Worker(log, settings)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def clock(url: str, *, per_second: float) -> Iterator[Clock]:
    """Yield a clock, not yet started; it is stopped at the end of the context."""
    created = Clock(url, per_second=per_second)
    try:
        yield created
    finally:
        created.stop()
