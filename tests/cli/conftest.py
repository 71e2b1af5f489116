"""The command line over one world, through each of its two doors: the database, and a real server's API."""

import json
import logging
import os
import pty
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result
from flask import Flask
from flask.cli import ScriptInfo
from werkzeug.serving import WSGIRequestHandler, make_server

from lib.cli import jobs
from tests.support.world import World, an_order

NOT_A_TERMINAL = "not a terminal: pass --yes to confirm; nothing was changed"
KATE = "kate@example.com"
CARD = "4111 1111 1111 1111"


class NoDatabase:
    """The wire of a command line that works through an API: it must never be asked."""

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        raise AssertionError(f"{function} was called directly")

    def close(self) -> None:
        pass


class Door:
    """`flask jobs …` of one application; `world` is what stands behind it."""

    def __init__(self, app: Flask, world: World, *, url: str | None = None) -> None:
        app.cli.add_command(jobs)
        self.app = app
        self.world = world
        self.url = url
        self.before = ["jobs", "--url", url] if url else ["jobs"]

    def run(self, *args: Any, types: str | bytes | None = None) -> Result:
        """The command's end, whatever it is; but it must be one: a traceback fails the test."""
        result = self.app.test_cli_runner().invoke(
            args=["jobs", *map(str, args)], input=types, env={"GIFTCARD_URL": self.url} if self.url else {}
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def says(self, *args: Any, types: str | bytes | None = None) -> str:
        """What is printed for people, when all went well."""
        result = self.run(*args, types=types)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def json(self, *args: Any, types: str | bytes | None = None) -> Any:
        """The one value of --json, when all went well."""
        return json.loads(self.says(*args, "--json", types=types))

    def json_of_failure(self, *args: Any) -> Any:
        """The one value of --json of a command that has found something."""
        result = self.run(*args, "--json")
        assert (result.exit_code, result.stderr) == (1, ""), result.output
        return json.loads(result.stdout)

    def refuses(self, *args: Any, code: int = 2, types: str | bytes | None = None) -> str:
        """The one sentence of a failure."""
        result = self.run(*args, types=types)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr.removeprefix("Error: ").strip()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Says nothing: standard error is what the command line says."""


class Served:
    """An application behind a real socket."""

    def __init__(self, app: Any) -> None:
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No address from outside, and no log lines on standard error beside the one sentence."""
    monkeypatch.delenv("GIFTCARD_URL", raising=False)
    logger, quiet = logging.getLogger("giftcards"), logging.NullHandler()
    logger.addHandler(quiet)
    yield
    logger.removeHandler(quiet)


@pytest.fixture
def serve() -> Iterator[Callable[[Any], Served]]:
    """Serves applications; they are shut down in the end."""
    served: list[Served] = []

    def start(app: Any) -> Served:
        served.append(Served(app))
        return served[-1]

    yield start
    for one in served:
        one.close()


@pytest.fixture
def direct(world: World) -> Door:
    """On the database."""
    return Door(world.app, world)


@pytest.fixture
def remote(world: World, make_world: Callable[..., World], serve: Callable[[Any], Served]) -> Door:
    """Through the API, from a machine that has no database."""
    return Door(make_world(wire=NoDatabase()).app, world, url=serve(world.app).url)


@pytest.fixture(params=["direct", "remote"])
def door(request: pytest.FixtureRequest) -> Door:
    """Each of the two: whatever a test says holds for both."""
    found: Door = request.getfixturevalue(request.param)
    return found


def dead_letters(world: World, count: int, *, stage: str = "email", **columns: Any) -> None:
    """Many of them, the oldest first."""
    row = {"error": "TransientError: mail server is down", "tenant": "default", "status": "error"} | columns
    world.sql(
        "insert into public.giftcard_jobs (tenant_id, correlation_id, stage, status, attempts, last_error, finished_at)"
        " select %s, 'dead-' || n, %s, %s, 5, %s, now() from generate_series(1, %s) n"
        # Only the database enqueues webhooks.
        " where set_config('giftcard.writer', case when %s = 'webhook' then 'webhook' else '' end, true) is not null",
        row["tenant"],
        stage,
        row["status"],
        row["error"],
        count,
        stage,
    )


class Terminal:
    """Standard input, output and error on a terminal of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def run(self, app: Flask, *args: Any, types: str = "", columns: int = 160, **setting: str) -> tuple[int, str]:
        """The exit code, and all that was on the screen."""
        master, slave = pty.openpty()
        screen = bytearray()

        def watch() -> None:
            while True:
                try:
                    seen = os.read(master, 65536)
                except OSError:  # Linux says so when the last who had it open has gone
                    return
                if not seen:
                    return
                screen.extend(seen)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with self._patch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", str(columns))
            patch.delenv("NO_COLOR", raising=False)
            for name, value in setting.items():
                patch.setenv(name, value)
            streams = {name: open(os.dup(slave), mode) for name, mode in  # noqa: PTH123, SIM115 - a descriptor
                       (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))}  # fmt: skip
            os.close(slave)
            for name, stream in streams.items():
                patch.setattr(f"sys.{name}", stream)
            os.write(master, types.encode())
            try:
                app.cli.main(["jobs", *map(str, args)], prog_name="flask", obj=ScriptInfo(create_app=lambda: app))
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                for stream in streams.values():
                    stream.close()
        watcher.join(10)
        os.close(master)
        return code, screen.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(monkeypatch)


@pytest.fixture
def busy(world: World) -> World:
    """Jobs in each state, of several stages, tenants and flows."""
    world.submit()
    while world.tick()["started"]:
        pass
    world.enqueue("email", an_order(), tenant_id="acme", correlation_id="a-1")
    world.enqueue("email", an_order(), correlation_id="a-2", status="cancelled")
    world.enqueue("webhook", circuit="webhook:7", correlation_id="a-3")
    dead_letters(world, 3, error=f"PermanentError: {KATE} is refused")
    dead_letters(world, 2, stage="payment", error="TransientError: HTTP 500")
    return world


@pytest.fixture
def personal(world: World) -> int:
    """A dead letter that is full of it."""
    (job_id,) = world.enqueue(
        "email",
        an_order(message=f"card {CARD}"),
        context={"note": KATE},
        status="error",
        last_error=f"PermanentError: {KATE} does not take {CARD}",
    )
    return job_id
