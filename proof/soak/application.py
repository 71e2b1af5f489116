"""One instance of the application, as Vercel runs it: a process that serves requests, each on a thread.

    python -m proof.soak.application FD PORT SECONDS

FD is a listening socket that all instances share. SECONDS: how long a day of retention lasts. It ends with SIGTERM, or
with the process that started it.
"""

import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from lib.config.settings import Settings
from lib.tick import pruning
from lib.web.services import services

_GRACE = 3.0


class _Silent(WSGIRequestHandler):
    """Logs no requests: the log is the application's events."""

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


def main() -> None:
    """Serve until SIGTERM."""
    fd, port, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads from here on
    shorten_days(seconds)
    index: Any = importlib.import_module("api.index")  # by name, and late: it reads the environment
    own = services(index.create_app())
    own.registry()
    server = make_server("127.0.0.1", port, index.app, threaded=True, fd=fd, request_handler=_Silent)
    threading.Thread(target=server.serve_forever, args=(0.1,), name="web", daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    server.shutdown()
    own.shutdown.ask(timeout=_GRACE)
    own.store.close()


def shorten_days(seconds: float) -> None:
    """Let a day of retention last `seconds`: pruning itself stays as it is."""
    in_days = pruning.limits

    def limits(settings: Settings) -> dict[str, str | None]:
        kept = {kind: text and float(text.split()[0]) for kind, text in in_days(settings).items()}
        return {kind: f"{days * seconds} seconds" if days else None for kind, days in kept.items()}

    setattr(pruning, "limits", limits)  # noqa: B010 - a type checker refuses the assignment


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
