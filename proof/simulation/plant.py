"""A bug to plant, and the seeds that find it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proof.simulation.database import Database
from proof.simulation.night import play

WITHIN = 500
"""Within so many seeds each planted bug is found."""

Change = tuple[str, str, str]
"""In the function of this name (none: anywhere) one text becomes another."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what is taken out, the changes of the schema, and what patches the Python."""

    name: str
    what: str
    changes: tuple[Change, ...] = ()
    patch: Callable[[], Any] | None = None

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant what is Python, within the context."""
        if self.patch is None:
            yield
            return
        with self.patch():
            yield


def find(plant: Plant, url: str, *, first: int = 1, most: int = WITHIN) -> tuple[int | None, str]:
    """Plant a bug in an empty database. Return how many seeds it takes to find it (None: more), and the failure."""
    database = Database(url)
    try:
        database.load(plant.changes)
        with plant.planted():
            for number, seed in enumerate(range(first, first + most), 1):
                night = play(seed, database)
                if night.machine.failures:
                    return number, night.machine.failures[0]
        return None, ""
    finally:
        database.close()
