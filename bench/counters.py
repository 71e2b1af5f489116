"""What the server does meanwhile: its CPU from /proc, WAL, commits and rows from the statistics."""

import os
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.measure import Counted

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_DATABASE = """
select (select xact_commit from pg_stat_database where datname = current_database()),
       coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_del), 0)::bigint
  from pg_stat_user_tables
"""
_OTHERS = """
select count(*) from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""
# Backends write their statistics when they end, which takes a moment.
_PATIENCE = 10.0


class Counters:
    """The difference between `begin` and `end`, of one database; CPU and WAL are those of the whole server."""

    def __init__(self, url: str) -> None:
        self._url = url
        database = conninfo_to_dict(url)
        self._server = url.replace(f"/{database['dbname']}?", "/postgres?")
        with psycopg.connect(self._server, autocommit=True) as connection:
            self._postmaster = parent(connection.info.backend_pid)

    def begin(self) -> None:
        """Begin, with the clients' connections open."""
        self._rows = _row(self._url, _DATABASE)
        self._wal = self._wal_position()
        self._cpu = cluster_cpu(self._postmaster)

    def pause(self) -> None:
        """End CPU and WAL: the work is done, the clients are about to leave."""
        cpu, wal = cluster_cpu(self._postmaster), self._wal_position()
        self._used = None if cpu is None or self._cpu is None else cpu - self._cpu
        self._written = wal - self._wal

    def end(self) -> Counted:
        """Return what was counted. Call this when the clients have ended."""
        until = time.monotonic() + _PATIENCE
        while _row(self._url, _OTHERS)[0] and time.monotonic() < until:
            time.sleep(0.02)
        commits, *rows = (after - before for before, after in zip(self._rows, _row(self._url, _DATABASE), strict=True))
        inserted, updated, deleted = rows
        return Counted(
            cpu=self._used,
            wal=self._written,
            commits=commits,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
        )

    def _wal_position(self) -> int:
        return _row(self._server, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")[0]


def _row(url: str, query: str) -> tuple[int, ...]:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return tuple(row or ())


def cluster_cpu(postmaster: int) -> float | None:
    """Return the CPU seconds of the server's children, living and ended, or None where they are unknown."""
    if not postmaster:
        return None
    pids = [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit()]
    living = [backend_cpu(pid) or 0 for pid in pids if parent(pid) == postmaster]
    ended = _fields(postmaster)[13:15]  # cutime and cstime: of children that have ended
    return sum(living) / 1e9 + sum(map(int, ended)) / _TICKS


def backend_cpu(pid: int) -> int | None:
    """Return a process's CPU time in nanoseconds, or None where it is unknown."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def parent(pid: int) -> int:
    """Return the parent's pid, or 0 without /proc."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat behind the process name, which may contain any characters."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
