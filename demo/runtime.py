"""The real application with its clock, and a worker process that is killed in the middle of its work."""

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
_LONGEST_CALL = 60.0  # seconds
_GRACE = 3.0


@contextmanager
def application(log: IO[str]) -> Iterator[tuple[Services, str]]:
    """Serve the application of `api/index.py` as on Vercel; give its services and its address."""
    app: Any = importlib.import_module("api.index").app  # by name and late: it reads the environment
    _log_to(log)
    server = make_server(_HOST, 0, app, threaded=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.1,), name="web", daemon=True)
    serving.start()
    own = services(app)
    try:
        yield own, f"http://{_HOST}:{server.port}"
    finally:
        own.shutdown.ask(patience=_GRACE)
        server.shutdown()
        serving.join()
        own.store.close()


def _log_to(log: IO[str]) -> None:
    """The application's events go to a file, one JSON object a line: the display is for the story."""
    events.configure(readable=False)
    for handler in logging.getLogger("giftcards").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Clock:
    """Calls the cron door as Vercel does, only more often: two callers in turn, so that two ticks may be under way.

    More would not be quicker on a small machine. `complaints`: calls that were not answered with 200.
    """

    def __init__(self, url: str, *, per_second: float) -> None:
        self.calls = 0
        self.complaints: list[str] = []
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {os.environ['CRON_SECRET']}", "User-Agent": "vercel-cron/1.0"},
            timeout=_LONGEST_CALL,
        )
        self._every = _CALLERS / per_second
        self._stop = threading.Event()
        self._callers = [
            threading.Thread(target=self._call, args=(at / per_second,), name=f"clock-{at}", daemon=True)
            for at in range(_CALLERS)
        ]

    def start(self) -> None:
        """The first call comes at once."""
        for caller in self._callers:
            caller.start()

    def stop(self) -> None:
        """No more calls; those under way get a moment to end."""
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
                    self.complaints.append(f"{response.status_code} {response.text[:200]}")
            except httpx.HTTPError as error:
                if not self._stop.is_set():
                    self.complaints.append(f"{type(error).__name__}: {error}")
            self.calls += 1
            wait = max(0.0, began + self._every - time.monotonic())


class Worker:
    """A process of its own that runs `flask jobs tick`, as a second function would."""

    def __init__(self, log: IO[str], settings: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "flask", "--app", "api.index", "jobs", "tick", "--limit", "1000", "--linger"]
        self._process = subprocess.Popen(  # noqa: S603
            command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=log
        )
        self.pid = self._process.pid
        self.owner = f"{socket.gethostname()}:{self.pid}"
        """What `lock_owner` says of the jobs that it runs."""

    @property
    def has_ended(self) -> bool:
        """Whether it is no more, by itself or killed."""
        return self._process.poll() is not None

    def kill(self) -> int:
        """SIGKILL: no handler, no goodbye. Answers how it ended: -9."""
        self._process.kill()
        return self._process.wait()


@contextmanager
def worker(log: IO[str], *, settings: Mapping[str, str]) -> Iterator[Worker]:
    """The process, with settings of its own, which does not outlive this context."""
    process = Worker(log, settings)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def clock(url: str, *, per_second: float) -> Iterator[Clock]:
    """A clock that is started by hand, and stopped at the end of this context at the latest."""
    made = Clock(url, per_second=per_second)
    try:
        yield made
    finally:
        made.stop()
