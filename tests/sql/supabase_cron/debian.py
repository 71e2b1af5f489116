"""A PostgreSQL of Debian's with an extension that the embedded one does not have, in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SETTINGS = """
listen_addresses = ''
fsync = off
"""

# The first database of a new cluster: pg_cron lives in one, which is named before the server starts.
PG_CRON = """
shared_preload_libraries = 'pg_cron'
cron.database_name = 'postgres'
cron.use_background_workers = on
cron.timezone = 'GMT'
"""


def installed_with(library: str) -> Path | None:
    """The newest installed PostgreSQL that has this library; None: there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/lib/{library}.so"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent.parent if found else None


@contextmanager
def server(installed: Path, *, settings: str = "") -> Iterator[str]:
    """The address of its database; `settings` are more lines of postgresql.conf.

    As root it runs as the user `postgres`, whom the package has made.
    """
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="giftcards-pg-", dir="/tmp"))  # short, for its socket
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)

    def run(program: str, *arguments: str) -> None:
        # Not captured: the server would hold the pipe open for as long as it runs.
        subprocess.run(
            [str(installed / "bin" / program), *arguments],
            user=user,
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    data = str(folder / "data")
    try:
        run("initdb", "--no-sync", "--username=postgres", "--auth=trust", "--locale=C.UTF-8", "--pgdata", data)
        lines = f"{_SETTINGS}{settings}unix_socket_directories = '{folder}'\n"
        (folder / "data/postgresql.auto.conf").write_text(lines)
        run("pg_ctl", "--wait", "--pgdata", data, "--log", str(folder / "log"), "start")
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        if (folder / "data/postmaster.pid").exists():
            run("pg_ctl", "--wait", "--mode=immediate", "--pgdata", data, "stop")
        shutil.rmtree(folder)
