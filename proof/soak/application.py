"""One instance of the application, as Vercel runs it: a process that serves requests, each on a thread.

    python -m proof.soak.application FD PORT

FD is a listening socket that all instances share. It ends with SIGTERM, or with the process that started it.
"""

import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from lib.web.services import services

# Seconds from SIGTERM to the end, as on Vercel.
_GRACE = 0.5


class _Silent(WSGIRequestHandler):
    """Logs no requests: the log is the application's events."""

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


def main() -> None:
    """Serve until SIGTERM."""
    fd, port = int(sys.argv[1]), int(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads from here on
    index: Any = importlib.import_module("api.index")  # by name, and late: it reads the environment
    own = services(index.create_app())
    own.registry()
    server = make_server("127.0.0.1", port, index.app, threaded=True, fd=fd, request_handler=_Silent)
    threading.Thread(target=server.serve_forever, args=(0.1,), name="web", daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    server.shutdown()
    own.shutdown.ask(timeout=_GRACE)
    os._exit(0)  # whatever still runs


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
