"""`make simulate`: play seeds, print each that breaks a promise, shrink the first; or plant bugs, and find them."""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dev import LOCAL
from dev.postgres import Embedded, embedded
from proof.command import count, run
from proof.simulation.database import SETTINGS, Database
from proof.simulation.fleet import played_by
from proof.simulation.night import play
from proof.simulation.planting import WITHIN, find
from proof.simulation.plants import PLANTS
from proof.simulation.shrink import shrunk

_TRACE = LOCAL / "simulation"


def main() -> int:
    """Parse the command line and run. Return 1 if a seed fails, or a planted bug is not found."""
    parser = argparse.ArgumentParser(prog="python -m proof.simulation", description=__doc__)
    parser.add_argument("--seeds", type=count, default=1000, help="how many seeds to play")
    parser.add_argument("--first", default="1", help="the first seed; new: one that was never played")
    parser.add_argument(
        "--plants", action="store_true", help="plant each bug, and state after how many seeds it is found"
    )
    parser.add_argument("--trace", action="store_true", help="print the trace of the first seed, and play no other")
    parser.add_argument("--processes", type=count, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.first != "new" and not options.first.isdecimal():
        parser.error(f"--first is a number or new, not {options.first}")
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
    print(f"Playing {count:,} seeds from {first} in {processes} processes.", flush=True)
    outcomes = played_by(processes, server, first, count)
    for done, (seed, failures, facts, _) in enumerate(outcomes, 1):
        totals.update(facts)
        if failures:
            failed.append(seed)
            print(f"\nseed {seed} fails:", *failures[:5], sep="\n  ", flush=True)
        if sys.stdout.isatty() or done % 100 == 0 or done == count:
            rate = done / (time.monotonic() - began)
            end = "\r" if sys.stdout.isatty() and done < count else "\n"
            print(f"{done:,} of {count:,} seeds, {rate:.1f} a second, {len(failed)} failed", end=end, flush=True)
    print(
        ", ".join(
            f"{number:,} {name}{'s' if number != 1 and name[-1] != 's' else ''}" for name, number in totals.items()
        )
    )
    if failed:
        _print_shrunk(server.create_database("least"), min(failed))
    return 1 if failed else 0


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
        print(f"seed {seed} does not fail again: something in it is not drawn from the seed")
        return
    least = shrunk(night, lambda left_out: play(seed, database, left_out=left_out))
    _TRACE.mkdir(parents=True, exist_ok=True)
    trace = _TRACE / f"seed-{seed}.txt"
    trace.write_text("\n".join([*least.machine.trace, *least.machine.failures]) + "\n")
    happened = f"{len(least.faults.happened)} of {len(night.faults.happened)} happenings"
    print(f"\nThe least of seed {seed} that fails ({happened}):")
    print(*least.faults.happened, *least.machine.failures[:5], sep="\n  ")
    print(f"Its trace is {trace}; the whole: python -m proof.simulation --first {seed} --trace")


def _find_plants(server: Embedded, first: int) -> int:
    missed = 0
    for number, plant in enumerate(PLANTS):
        found, failure = find(plant, server.create_database(f"plant_{number}"), first=first, most=WITHIN)
        missed += found is None
        after = "not found" if found is None else f"after {found:3} seeds"
        print(f"{plant.name:18} {after:16} {failure[:100]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    run(main)
