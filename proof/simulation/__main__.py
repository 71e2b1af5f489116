"""Simulate nights of faults, one for each seed: `make simulate`.

A seed that breaks a promise is printed with what it breaks; the least of the failing seeds is shrunk to the faults that
matter, and its trace is kept in .local/simulation/. Exit codes: 0 every seed holds, 1 one does not, or a planted bug is
not found.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from dev import LOCAL
from dev.postgres import Embedded, embedded
from proof.counts import count
from proof.ending import exit_with
from proof.simulation.database import SETTINGS, Database
from proof.simulation.fleet import played_by
from proof.simulation.night import play
from proof.simulation.plant import WITHIN, find
from proof.simulation.plants import PLANTS
from proof.simulation.shrink import shrunk

_TRACE = LOCAL / "simulation"
# What happened in a night, in words.
_NAMES = {"kill": "kills", "freeze": "freezes", "request lost": "lost requests", "answer lost": "lost answers"}


def main() -> int:
    """Parse the command line and run. Return 1 if a seed fails, or a planted bug is not found."""
    parser = argparse.ArgumentParser(prog="python -m proof.simulation", description=__doc__)
    parser.add_argument("--seeds", type=count, default=1000, metavar="N", help="how many seeds to play (1000)")
    parser.add_argument("--first", default="1", metavar="N", help="the first seed (1); new: one drawn at random")
    parser.add_argument(
        "--plants", action="store_true", help="plant each bug, and print after how many seeds it is found"
    )
    parser.add_argument("--trace", action="store_true", help="print the trace of the first seed, and play no other")
    processes = os.cpu_count() or 1
    parser.add_argument(
        "--processes", type=count, default=processes, metavar="N", help="how many at once (one for each core)"
    )
    options = parser.parse_args()
    if options.first != "new" and not options.first.isdecimal():
        parser.error(f"--first is a number or new, not {options.first}: try --first 1")
    first = random.randrange(10**9) if options.first == "new" else int(options.first)
    with (
        tempfile.TemporaryDirectory(prefix="simulation-") as folder,
        embedded(Path(folder), settings=SETTINGS) as server,
    ):
        if options.plants:
            return _find_plants(server, first)
        if options.trace:
            return _print_trace(server.create_database("trace"), first)
        return _play_all(server, first, options.seeds, options.processes)


def _play_all(server: Embedded, first: int, count: int, processes: int) -> int:
    began, totals, failed = time.monotonic(), Counter[str](), list[int]()
    print(f"Playing seeds {first} to {first + count - 1}, {processes} at once; Ctrl-C ends it.", flush=True)
    with closing(played_by(processes, server, first, count)) as outcomes:
        for done, (seed, failures, facts, _) in enumerate(outcomes, 1):
            totals.update(facts)
            if failures:
                failed.append(seed)
                print(f"\nseed {seed} breaks a promise:", *failures[:5], sep="\n  ", flush=True)
            if sys.stdout.isatty() or done % 100 == 0 or done == count:
                end = "\r" if sys.stdout.isatty() and done < count else "\n"
                print(_progress(done, count, len(failed), time.monotonic() - began), end=end, flush=True)
    happened = [f"{number:,} {_NAMES.get(name, name)}" for name, number in totals.items()]
    print(f"They had {', '.join(happened[:4])}\nand {', '.join(happened[4:])}.")
    if not failed:
        print("Every promise held in every seed.")
        return 0
    print(f"{len(failed)} of {count:,} seeds break a promise. Shrinking seed {min(failed)} …", flush=True)
    _print_shrunk(server.create_database("least"), min(failed))
    return 1


def _progress(done: int, count: int, failed: int, seconds: float) -> str:
    """Return a line; in a terminal of one width, so that each is written over the one before."""
    left = f", about {seconds / done * (count - done):,.0f} s left" if done < count else f", {seconds:,.0f} s"
    return f"{done:,} of {count:,} seeds, {failed} failed{left}".ljust(72 if sys.stdout.isatty() else 0)


def _print_trace(url: str, seed: int) -> int:
    database = Database(url)
    database.load()
    night = play(seed, database)
    print(*night.machine.trace, *night.machine.failures, sep="\n")
    return 1 if night.machine.failures else 0


def _print_shrunk(url: str, seed: int) -> None:
    database = Database(url)
    database.load()
    night = play(seed, database)
    if not night.machine.failures:
        print(
            f"Seed {seed} does not fail again: something in it is not drawn from the seed. The simulation is at fault."
        )
        return
    least = shrunk(night, lambda left_out: play(seed, database, left_out=left_out))
    _TRACE.mkdir(parents=True, exist_ok=True)
    trace = _TRACE / f"seed-{seed}.txt"
    trace.write_text("\n".join([*least.machine.trace, *least.machine.failures]) + "\n")
    kept = f"{len(least.faults.happened)} of its {len(night.faults.happened)} faults and actors"
    print(f"\nSeed {seed} breaks a promise with {kept} alone:")
    print(*(f"  {one}" for one in least.faults.happened), sep="\n")
    print("What breaks:", *least.machine.failures[:5], sep="\n  ")
    print(f"Its trace: {trace}")
    print(f"The trace with all of them: make simulate FIRST={seed} ARGS=--trace")


def _find_plants(server: Embedded, first: int) -> int:
    missed = 0
    for number, plant in enumerate(PLANTS):
        found, failure = find(plant, server.create_database(f"plant_{number}"), first=first, most=WITHIN)
        missed += found is None
        after = "not found" if found is None else f"after {found:3} seeds"
        print(f"{plant.name:18} {after:16} {failure[:100]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    exit_with(main)
