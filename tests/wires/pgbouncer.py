"""A real PgBouncer in transaction mode: each statement of a client goes to whichever server connection is free."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# Few, so that clients share them.
_SERVER_CONNECTIONS = 3

_CONFIG = """
[databases]
* = host={folder} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
{more}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
logfile = {log}
"""


def program() -> str | None:
    """Where Debian's package puts it is not on everybody's path."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def keeping_program() -> str | None:
    """One that can keep track of prepared statements, 1.21 or newer: `PGBOUNCER`, or the installed one."""
    for found in filter(None, (os.environ.get("PGBOUNCER"), program())):
        words = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.split()
        if tuple(map(int, words[1].split(".")[:2])) >= (1, 21):
            return found
    return None


class PgBouncer:
    """In front of one server, for each of its databases."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url_of(self, url: str) -> str:
        """The same database, through the pooler."""
        return make_conninfo(url, host="127.0.0.1", port=self.port)


@contextmanager
def pgbouncer(
    url: str, *, more: str = "auth_type = any", files: Mapping[str, str] | None = None, found: str | None = None
) -> Iterator[PgBouncer]:
    """A pooler before the server of this address, which listens on a socket in a folder.

    `more`: lines of its configuration, in which {files} is the folder of these files. `found`: the program.
    """
    found = found or program()
    assert found
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="giftcards-pgbouncer-") as name:
        folder = Path(name)
        # As root it will not run, and only the server's own user may enter the server's folder.
        owner = "embedded_postgres" if os.geteuid() == 0 else None
        config = folder / "pgbouncer.ini"
        host = conninfo_to_dict(url)["host"]
        more = more.format(files=folder)
        config.write_text(
            _CONFIG.format(folder=host, port=port, size=_SERVER_CONNECTIONS, log=folder / "log", more=more)
        )
        for name, content in (files or {}).items():
            (folder / name).write_text(content)
        if owner:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, owner)
        process = subprocess.Popen([found, "-q", str(config)], user=owner, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, process, folder / "log")
            yield PgBouncer(port)
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text() if log.exists() else "no log"
            time.sleep(0.02)
        else:
            return
    raise AssertionError("pgbouncer does not listen")
