"""Seeds side by side: each chunk of them in a process and a database of its own."""

import hashlib
import multiprocessing
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, as_completed

import psycopg

from dev.postgres import Embedded
from proof.simulation.database import Database
from proof.simulation.night import Night, play

# Seeds that a process plays before a fresh one takes its place: what is killed in one leaves something in its memory.
_CHUNK = 25

Outcome = tuple[int, list[str], dict[str, int], str]
"""A seed, its failures, what happened in numbers, and a digest of its trace."""


def played_by(processes: int, server: Embedded, first: int, count: int) -> Generator[Outcome]:
    """Play seeds in so many processes, and yield what became of each, in the order in which they end."""
    template = Database(server.create_database("simulation"))
    template.load()
    template.close()
    size = max(1, min(_CHUNK, count // (2 * processes)))
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(processes, mp_context=context, max_tasks_per_child=1) as pool:
        chunks = [
            pool.submit(
                _play, server.url, server.url_of(f"chunk_{start}"), range(start, min(start + size, first + count))
            )
            for start in range(first, first + count, size)
        ]
        try:
            for chunk in as_completed(chunks):
                yield from chunk.result()
        except BaseException:  # also if no one wants the rest: its chunks would go on
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _play(server: str, url: str, seeds: range) -> list[Outcome]:
    name = f"chunk_{seeds.start}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name} template simulation strategy file_copy")
        database = Database(url)
        try:
            database.load()
            return [outcome_of(play(seed, database)) for seed in seeds]
        finally:
            database.close()
            connection.execute(f"drop database {name} with (force)")


def outcome_of(night: Night) -> Outcome:
    """Return what became of a night."""
    return night.seed, night.machine.failures, night.facts(), digest(night)


def digest(night: Night) -> str:
    """Return a digest of a night's trace: the same for the same seed, wherever it is played."""
    return hashlib.sha256("\n".join(night.machine.trace).encode()).hexdigest()[:16]
