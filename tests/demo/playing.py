"""A demo as a process of its own, and what its database holds."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psycopg

from dev import ROOT

TIMEOUT = 240  # seconds, on a machine that is busy with other things


def environment(database_url: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return kept | ({"DATABASE_URL": database_url} if database_url else {})


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "demo", "--folder", str(folder), *arguments]


def demo(folder: Path, *arguments: str, database_url: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        cwd=ROOT,
        env=environment(database_url),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def stopped(folder: Path, *, database_url: str) -> tuple[int, str, int]:
    """A demo that gets Ctrl-C once a circuit is open: its exit code, its last line, and the pid of its worker."""
    process = subprocess.Popen(
        command(folder, "-v"),
        cwd=ROOT,
        env=environment(database_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout
    worker = 0
    for line in process.stdout:
        if killed := re.search(r"process (\d+) is killed", line):
            worker = int(killed[1])
        if "the circuit of email opens" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    return process.wait(timeout=60), rest.splitlines()[-1], worker


def one(url: str, query: str, *values: object) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query, values).fetchone()  # type: ignore[arg-type]
    return row and (row[0] if len(row) == 1 else row)


def first_screen(page: list[str]) -> str:
    """What `python -m demo page` serves, until it is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "demo", *page]
    server = subprocess.Popen(command, cwd=ROOT, env=environment(None) | {"PORT": str(port)}, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        url = re.search(r"http://\S+", server.stdout.readline().decode())
        assert url
        for _ in range(300):
            with suppress(httpx.TransportError):
                return httpx.get(url[0], timeout=30).text
            time.sleep(0.1)
        raise AssertionError("no answer")
    finally:
        server.terminate()
        assert server.wait(60) == 0
