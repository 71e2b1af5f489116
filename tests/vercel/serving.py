"""Serves a built function as the platform does: Vercel's own runtime in a process, which reports over a socket."""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.vercel.building import Built

# What the proxy adds to every request.
_OF_THE_PROXY = {
    "host": "giftcards.vercel.app",
    "x-forwarded-for": "192.0.2.1",
    "x-forwarded-proto": "https",
    "x-vercel-internal-invocation-id": "invocation-1",
    "x-vercel-internal-request-id": "1",
}


class DidNotStart(Exception):
    """What it wrote before it ended."""


class Function:
    """One instance of a function.

    `seconds`, and of these `cpu_seconds`: from the start of its process until it could take a request.
    """

    def __init__(self, built: Built, environment: dict[str, str], *, python: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fn-", dir="/tmp")  # short, for its socket
        self._log = Path(self._folder.name, "log")
        self._messages: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        address = f"{self._folder.name}/ipc"
        with socket.socket(socket.AF_UNIX) as listener, self._log.open("wb") as log:
            listener.bind(address)
            listener.listen(1)
            listener.settimeout(30)
            began = time.monotonic()
            self.process = subprocess.Popen(
                [str(python / built.config["runtime"]), "vc__handler__python.py"],
                cwd=built.function,
                env={
                    "PATH": os.environ["PATH"],
                    "VERCEL": "1",
                    "VERCEL_ENV": "production",
                    "VERCEL_IPC_PATH": address,
                    **built.config["environment"],
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                self._connection, _ = listener.accept()
            except TimeoutError:
                self.close()
                raise
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._started = self._await_start()
        self.seconds = time.monotonic() - began
        times = psutil.Process(self.process.pid).cpu_times()
        self.cpu_seconds = times.user + times.system
        url = f"http://127.0.0.1:{self._started['httpPort']}"
        self._client = httpx.Client(base_url=url, headers=_OF_THE_PROXY, timeout=60)

    @property
    def phases(self) -> dict[str, int]:
        """Of its start, in milliseconds, as the runtime measures it."""
        return dict(self._started["phases"])

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, as the proxy hands it on."""
        return self._client.request(method, path, **options)

    def logged(self) -> list[str]:
        """The lines that it logged, in the platform's own log, not on standard error."""
        with self._heard:
            told = [message["payload"] for message in self._messages if message["type"] == "log"]
        return "".join(base64.b64decode(line["message"]).decode() for line in told).splitlines()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        """Ends it as the platform ends an instance in the end: with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        if hasattr(self, "_client"):
            self._client.close()
        if hasattr(self, "_listener"):
            self._listener.join(10)
            self._connection.close()
        self._folder.cleanup()

    def _await_start(self) -> dict[str, Any]:
        def first() -> dict[str, Any] | None:
            return next((m for m in self._messages if m["type"] in ("server-started", "unrecoverable-error")), None)

        with self._heard:
            self._heard.wait_for(lambda: first() or not self._listener.is_alive(), timeout=30)
            message = first()
        if message is None or message["type"] != "server-started":
            said = message["payload"]["message"] if message else ""
            story = f"{said}\n{self._log.read_text(errors='replace')}"
            self.close()
            raise DidNotStart(story)
        return dict(message["payload"])

    def _listen(self) -> None:
        rest = b""
        while more := self._connection.recv(65536):
            *whole, rest = (rest + more).split(b"\0")
            with self._heard:
                self._messages += [json.loads(message) for message in whole]
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()
