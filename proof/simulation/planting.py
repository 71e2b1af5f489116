"""Plants a bug, and plays seeds until one finds it."""

from proof.simulation.database import Database
from proof.simulation.night import play
from proof.simulation.plants import Plant

WITHIN = 500
"""Within so many seeds each planted bug is found."""


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
