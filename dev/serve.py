"""`make dev`: the web application and its minute clock on this machine.

    python -m dev.serve        PORT (8000, or the next free one), DATABASE_URL (else an embedded Postgres), SAMPLE=0

An empty embedded database gets the sample data (dev/sample.py), unless SAMPLE=0.

All its data is in .local/. An edit of a Python file or a template restarts the application, not the database. Ctrl-C or
SIGTERM stops both. While it runs, `.env` leads `flask jobs` in another terminal to its database.
"""

import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from dev import LOCAL
from dev.clock import run_clock
from dev.env_file import FILE, Foreign, check_no_other, env_file
from dev.keys import secrets_file
from dev.migrate import migrate, place
from dev.postgres import check_is_local, database
from dev.reload import run_reloading, watched_folders
from dev.sample import plant
from lib.errors import Misconfigured, SettingsError, StoreError
from lib.telemetry.redact import covered
from lib.web.services import services

_HOST = "127.0.0.1"
_APPLICATION = "--application"
_SAMPLE = "--sample"

_WELCOME = """
Gift cards at {url}   (Ctrl-C to stop)

  Open it in a browser: the page of operators, signed in.
  A clock calls the cron endpoint each full minute, and each order wakes a tick within a second.
  Mails are written to {mails}.
  The tokens are in .local/secrets.json. To send an order, run a tick and see the status:

    token() {{ python3 -c 'import json, sys; print(json.load(open(".local/secrets.json"))[sys.argv[1]])' "$1"; }}
    curl {url}/api/v1/giftcards -H "Authorization: Bearer $(token GIFTCARD_API_TOKEN)" \\
         -H "Content-Type: application/json" -d '{{"customer": {{"given_name": "Kate", "family_name": "Rodgers",
         "email": "kate@example.com"}}, "amount": {{"amount": 2500, "currency": "USD"}}}}'
    curl -X POST {url}/api/jobs/run -H "Authorization: Bearer $(token GIFTCARD_ADMIN_TOKEN)"
    curl {url}/api/status -H "Authorization: Bearer $(token GIFTCARD_ADMIN_TOKEN)"

{commands}  The API is described at {url}/api/docs.
"""
_COMMANDS = """  The command line, in another terminal in this folder ({env} has its settings until this ends):

    .venv/bin/flask jobs status

"""
_COMMANDS_BY_API = """  {reason}. The command line works through the API:

    export GIFTCARD_URL={url} GIFTCARD_ADMIN_TOKEN=$(token GIFTCARD_ADMIN_TOKEN)
    .venv/bin/flask jobs status

"""

# Without a password, unlike the URL of another database.
_EMBEDDED = """
  SQL, for sql/*.sql and docs/runbook.md:

    export DATABASE_URL='{database}'
    psql "$DATABASE_URL" -f sql/status.sql
"""


def main() -> int:
    """Run until a signal. Exit codes: 0 stopped, 1 could not start."""
    embedded = not os.environ.get("DATABASE_URL", "").strip()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # during the start, both signals stop it in the same way
    try:
        check_no_other()
        check_is_local("make dev")
        with database(environment="development") as url:
            print(f"Working on {place(url)}", flush=True)
            for file in migrate(url):
                print(f"applied {file}")
            variables = _environment(url)
            os.environ.update(variables)
            with free_port(int(os.environ.get("PORT") or 8000)) as listener, ExitStack() as stack:
                os.environ["PORT"] = str(listener.getsockname()[1])
                os.environ["GIFTCARD_PUBLIC_URL"] = os.environ.get("GIFTCARD_PUBLIC_URL") or _address()
                variables["GIFTCARD_PUBLIC_URL"] = os.environ["GIFTCARD_PUBLIC_URL"]
                about_the_database = _EMBEDDED.format(database=url) if embedded else ""
                _log(_welcome(stack, variables) + about_the_database)
                command = [sys.executable, "-m", "dev.serve", _APPLICATION, str(listener.fileno())]
                command += [_SAMPLE] if embedded and os.environ.get("SAMPLE") != "0" else []
                return run_reloading(command, watched_folders(), pass_fds=[listener.fileno()], log=_log)
    except KeyboardInterrupt:
        pass
    except Misconfigured as error:
        empty = "; or delete .local/postgres to begin with an empty database" if embedded else ""
        print(f"Cannot start: {error}{empty}", file=sys.stderr)
        return 1
    except (StoreError, SettingsError) as error:
        print(f"Cannot start: {error}", file=sys.stderr)
        return 1
    print("Stopped.")
    return 0


def _environment(url: str) -> dict[str, str]:
    """Return the application's variables: those already set take precedence, but Supabase is never used."""
    defaults = {
        "DATABASE_URL": url,
        "GIFTCARD_ENV": "development",
        "GIFTCARD_MAIL_DIR": str(LOCAL / "mails"),
        "GIFTCARD_PAGE_OPEN": "1",
        "GIFTCARD_JOBS_PER_CRON_RUN": "1000",
        "GIFTCARD_WAKE": "url",
        **secrets_file(LOCAL / "secrets.json"),
    }
    names = (*defaults, "GIFTCARD_STAGES", "GIFTCARD_TEMPLATES", "GIFTCARD_ORDER_FLOW")  # the command line needs them
    return defaults | {name: os.environ[name] for name in names if os.environ.get(name)} | {"SUPABASE_URL": ""}


def _welcome(stack: ExitStack, variables: Mapping[str, str]) -> str:
    """Write `.env` until the end of `stack`, and return what to do with the application."""
    url = _address()
    try:
        stack.enter_context(env_file({name: value for name, value in variables.items() if value}, url=url))
        commands = _COMMANDS.format(env=FILE.name)
    except Foreign as error:
        commands = _COMMANDS_BY_API.format(reason=error, url=url)
    return _WELCOME.format(url=url, mails=os.environ["GIFTCARD_MAIL_DIR"], commands=commands)


def run_application(fd: int, *, with_sample: bool = False) -> None:
    """Serve on a listening socket, and tick, until a signal. It runs in a process of its own, which edits restart.

    `with_sample`: add the sample data to an empty database.
    """
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # in all threads from here on: only `sigwait` receives them
    # Imported by name, and late: it reads the environment.
    app = importlib.import_module("api.index").create_app()
    own = services(app)
    stop = threading.Event()
    own.registry()  # logs what is broken
    planted = plant(own, os.environ["DATABASE_URL"]) if with_sample else 0
    if planted:
        _log(f"Added {planted} sample orders (data/orders.csv): a tick runs them now.")
    with _serve(app, fd) as url:
        clock = threading.Thread(
            target=run_clock,
            args=(url, os.environ["CRON_SECRET"]),
            kwargs={"stop": stop, "report": _log, "at_once": planted > 0},
            daemon=True,
        )
        clock.start()
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        signal.sigwait(signals)
        stop.set()
        own.shutdown.ask(timeout=3)  # start no more jobs
        clock.join()


def _end_with_parent(parent: int) -> None:
    """End this process when `make dev` was killed: it would tick on unseen, and keep the port."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


class _Requests(WSGIRequestHandler):
    """Logs requests to the API; those of an open page come every few seconds. No line has a customer's token."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.path.startswith("/api/"):
            super().log_request(code, size)

    def log(self, type: str, message: str, *args: Any) -> None:
        super().log(type, "%s", covered(message % args))


@contextmanager
def _serve(app: Any, fd: int) -> Iterator[str]:
    """Serve the application, with a thread per request as on Vercel; yield its URL."""
    server = make_server(_HOST, int(os.environ["PORT"]), app, threaded=True, fd=fd, request_handler=_Requests)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="web", daemon=True)
    thread.start()
    try:
        yield f"http://{_HOST}:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def free_port(first: int) -> socket.socket:
    """Return a listening socket on the first free port of the hundred from `first` on."""
    for port in range(first, first + 100):
        try:
            return socket.create_server((_HOST, port), backlog=128)
        except OSError:
            continue
    raise SystemExit(f"No free port from {first} to {first + 99}: set PORT to another one.")


def _address() -> str:
    return f"http://{_HOST}:{os.environ['PORT']}"


def _log(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [_APPLICATION]:
        try:
            run_application(int(sys.argv[2]), with_sample=_SAMPLE in sys.argv)
        except SettingsError as error:
            sys.exit(f"Cannot start: {error}")
        sys.exit(0)
    sys.exit(main())
