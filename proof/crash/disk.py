"""A disk fills up in the middle of a night: that of the data, then that of the write-ahead log."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psycopg

from dev.migrate import migrate
from dev.postgres import Embedded
from proof.crash import plants
from proof.crash.night import Night, Plan, Say, a_shop
from proof.crash.operator import Operator, an_operator
from proof.crash.outcome import tell
from proof.crash.server import await_recovery, read_while_away
from proof.crash.servers import DATABASE, USER, own_server

TIMES = 2
FULL = "No space left on device (SQLSTATE 53100)"
_MEGABYTES = 200
_LITTLE_LOG = {"min_wal_size": "32MB", "max_wal_size": "64MB"}
_DATABASE = "on_small_disk"


class NoSmallDisk(Exception):
    """This machine lets no small file system be mounted."""


def run(plan: Plan, say: Say, *, log: bool = True) -> list[str]:
    """Fill the disk of the data `plan.times` times, and that of the log once if `log`; return what is broken.

    Raises:
        NoSmallDisk: it cannot be tried here.
    """
    times = plan.times or TIMES
    say(f"the disk of the data is full {times} times, that of the write-ahead log once")
    with (
        small_disk() as disk,
        tempfile.TemporaryDirectory(prefix="giftcards-crash-") as folder,
        own_server(Path(folder), settings=_LITTLE_LOG) as (server, _),
    ):
        broken = _full_data(plan, say, server, disk, times)
        return broken + (_full_log(plan, say, server, disk, Path(folder) / "postgres") if log else [])


@contextmanager
def small_disk() -> Iterator[Path]:
    """Yield a folder on a small file system of its own. Raise NoSmallDisk if none can be mounted."""
    with tempfile.TemporaryDirectory(prefix="giftcards-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m,mode=0777", "tmpfs", folder]
        try:
            subprocess.run(mount, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            words = getattr(error, "stderr", "") or error
            raise NoSmallDisk(f"no tmpfs can be mounted here, which takes root: {str(words).strip()}") from None
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


def free(disk: Path) -> None:
    """Make room again."""
    (disk / "filler").unlink()


def _full_data(plan: Plan, say: Say, server: Embedded, disk: Path, times: int) -> list[str]:
    """Fill the tablespace of the database."""
    place = disk / "data"
    place.mkdir(mode=0o700)
    _give(place)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create tablespace small location '{place}'".encode())
        connection.execute(f"create database {_DATABASE} tablespace small".encode())
    url = server.url_of(_DATABASE)
    migrate(url)

    def spoil(night: Night, operator: Operator) -> Callable[[], None]:
        fill(disk)
        if not night.wait_until(lambda: any(FULL in words for words in night.failed), seconds=60, what="disk full"):
            operator.unmet.append("words: no tick failed on the full disk")
        _read_while_full(operator)
        return lambda: free(disk)

    return _night(plan, say, url, times, spoil)


def _full_log(plan: Plan, say: Say, server: Embedded, disk: Path, data: Path) -> list[str]:
    """Fill the disk of the write-ahead log: the server goes down, and starts once there is room."""
    server.stop()
    shutil.move(data / "pg_wal", disk / "wal")
    for path in (disk / "wal", *(disk / "wal").rglob("*")):
        _give(path)
    (data / "pg_wal").symlink_to(disk / "wal")
    server.start()

    def spoil(night: Night, operator: Operator) -> Callable[[], None]:
        fill(disk)
        if not night.wait_until(lambda: _log_on(night) and operator.health() == "down", seconds=60, what="log full"):
            operator.unmet.append("words: the server did not go down with its log's disk full")
        read_while_away(operator)

        def mend() -> None:
            free(disk)
            server.start()

        return mend

    return _night(plan, say, server.url_of(DATABASE), 1, spoil)


def _log_on(night: Night) -> bool:
    """Use up the files of the log that are there already."""
    with suppress(psycopg.OperationalError):
        night.house.execute("select pg_switch_wal()")
    return True


def _night(
    plan: Plan, say: Say, url: str, times: int, spoil: Callable[[Night, Operator], Callable[[], None]]
) -> list[str]:
    """Spoil a night so many times, and mend it; return what is broken."""
    rng = Random(plan.seed)
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-full-") as folder,
        a_shop(url, Path(folder), plan) as shop,
        an_operator(url) as operator,
    ):
        plants.plant(plan.plant, shop)
        with Night(shop, lanes=plan.lanes, say=say, budget=2.0 * plan.pace, patience=60.0) as night:
            night.house.patience = 1.0
            for turn in range(times):
                night.wait(rng.uniform(1.0, 3.0) * plan.pace, f"full {turn} times")
                mend = spoil(night, operator)
                night.wait(rng.uniform(0.5, 3.0) * plan.pace, "the disk is full")
                mend()
                await_recovery(night, operator)
            night.house.patience = 30.0
        operator.check_log(shop.house)
        return operator.tell(say) + tell(night)


def _read_while_full(operator: Operator) -> None:
    problem = operator.clock()
    # A tick without work may find room for its row in a page that is there already: then it ends well.
    words = ("the disk of the database is full", "nothing was lost") if "title" in problem else ()
    operator.expect("clock", f"{problem.get('title')}: {problem.get('detail')}", *words)
    operator.expect("health", operator.health(), "disk_full")
    operator.expect("doctor", operator.doctor("writable"), "red", "the disk of the database is full", "free disk space")


def _give(path: Path) -> None:
    """Give it to the server's own user."""
    if os.geteuid() == 0:
        shutil.chown(path, USER)
