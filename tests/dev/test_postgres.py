"""The machinery of a developer's machine."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from dev import ROOT
from dev.clock import run_clock
from dev.keys import secrets_file
from dev.postgres import database, embedded
from lib.errors import Misconfigured, Unavailable


def test_secrets_stay_the_same_and_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "local/secrets.json"
    first = secrets_file(path)
    assert secrets_file(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(set(first.values())) == len(first) == 6


def test_a_secret_that_the_file_lacks_is_added(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"CRON_SECRET": "kept", "OTHER": "kept too"}))
    assert secrets_file(path)["CRON_SECRET"] == "kept"
    assert json.loads(path.read_text()) == secrets_file(path) | {"OTHER": "kept too"}


def test_the_encryption_key_is_one_that_fernet_takes(tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    Fernet(secrets_file(tmp_path / "secrets.json")["GIFTCARD_ENCRYPTION_KEYS"])


@pytest.mark.parametrize("text", ["{", "[]", '{"CRON_SECRET": 1}'])
def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=r"secrets\.json"):
        secrets_file(path)
    assert path.read_text() == text


class CronDoor(ThreadingHTTPServer):
    """Answers the first call late, the second with an error, the rest with a report."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CronHandler)
        self.calls: list[tuple[str, str | None, str | None]] = []
        self.first_may_end = threading.Event()


class CronHandler(BaseHTTPRequestHandler):
    server: CronDoor

    def do_GET(self) -> None:
        self.server.calls.append((self.path, self.headers["Authorization"], self.headers["User-Agent"]))
        number = len(self.server.calls)
        if number == 1:
            self.server.first_may_end.wait(10)
        report = json.dumps({"started": 3, "completed": 2, "retried": 1, "circuits_opened": ["email"]})
        status, body = (500, "out of order") if number == 2 else (200, report)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def door() -> Iterator[CronDoor]:
    with CronDoor() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_the_clock_calls_as_vercel_does_and_waits_for_no_call(door: CronDoor) -> None:
    stop, told = threading.Event(), []

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            door.first_may_end.set()
        if len(told) == 4:
            stop.set()

    run_clock(f"http://127.0.0.1:{door.server_port}", "sesame", every=0.05, stop=stop, report=tell)
    assert door.calls[0] == ("/api/cron/giftcard-jobs", "Bearer sesame", "vercel-cron/1.0")
    assert any(line.endswith("tick 500 out of order") for line in told[:3])
    assert any(line.endswith("tick 200 3 started, 2 completed, 1 retried, circuit email opened") for line in told)


def test_the_clock_outlives_an_application_that_is_away() -> None:
    stop, told = threading.Event(), []

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            stop.set()

    run_clock("http://127.0.0.1:1", "sesame", every=0.02, stop=stop, report=tell)
    assert all("no response: ConnectError" in line for line in told)


def test_database_url_chooses_another_postgres(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/x")
    with database(tmp_path / "never") as url:
        assert url == "postgresql://elsewhere/x?sslmode=require&require_auth=scram-sha-256"
    with database(tmp_path / "never", environment="development") as url:
        assert url == "postgresql://elsewhere/x"
    assert not (tmp_path / "never").exists()


def test_a_path_that_the_server_cannot_live_under_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="space"), embedded(tmp_path / "a b"):
        pass


@pytest.mark.slow
def test_a_server_is_shared_by_processes_and_stops_with_the_last_one_living(tmp_path: Path) -> None:
    program = "import sys, time; from pathlib import Path; from dev.postgres import embedded\n" + (
        "with embedded(Path(sys.argv[1])): print('up', flush=True); time.sleep(60)"
    )
    folder = tmp_path / "postgres"
    other = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "up\n"
    with embedded(folder) as server:
        url, pid = server.url, _postmaster(folder)
        other.send_signal(signal.SIGKILL)
        other.wait()
    with psycopg.connect(url):  # the killed one is still counted: nobody could tell that it was gone
        pass
    with embedded(folder):
        assert _postmaster(folder) == pid
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


@pytest.mark.slow
def test_a_pid_file_of_before_a_restart_of_the_machine_is_no_server(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    with embedded(folder) as server:
        server.stop(mode="immediate")
        pid_file = folder / "postmaster.pid"
        lines = [str(os.getpid()), str(folder), str(int(time.time())), "5432", str(folder), "", "1 1", "ready"]
        pid_file.write_text("\n".join(lines) + "\n")
    with embedded(folder) as server, psycopg.connect(server.url):
        pass


def _postmaster(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text().split()[0])
