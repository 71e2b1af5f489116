"""Kill workers, server, disk, connections and network under a night's orders: `make crash`.

In the end the books here, the vendor's books, mails and history are compared. Exit codes: 0 every fact holds, 1 some do
not, each of which is printed after BROKEN.
"""

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable, Mapping

from lib.telemetry.events import LOG
from proof.counts import count
from proof.crash import connections, disk, kills, network, server
from proof.crash.night import Plan, Say
from proof.crash.plants import PLANTS
from proof.ending import exit_with

SCENARIOS: Mapping[str, Callable[[Plan, Say], list[str]]] = {
    "kills": kills.run,
    "server": server.run,
    "disk": disk.run,
    "connections": connections.run,
    "network": network.run,
}


def main(arguments: list[str]) -> int:
    """Run the scenarios that are wanted, one after another, and return the exit code."""
    LOG.addHandler(logging.NullHandler())  # that of the operator's application; the workers' goes to files
    LOG.propagate = False
    chosen = _parser().parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.randrange(10**6)
    plan = Plan(seed=seed, kills=chosen.kills, times=chosen.times, lanes=chosen.workers, plant=chosen.plant)
    say(f"seed {seed}" + (f", planted: {PLANTS[plan.plant]}" if plan.plant else ""))
    broken = 0
    for name in chosen.scenario or SCENARIOS:
        began = time.monotonic()
        say(f"== {name}")
        try:
            lines = SCENARIOS[name](plan, say)
        except disk.NoSmallDisk as reason:
            say(f"== {name}: SKIPPED, nothing was tried: {reason}")
            continue
        broken += len(lines)
        verdict = f"{len(lines)} broken facts" if lines else "nothing lost, nothing doubled"
        say(f"== {name}: {verdict}, {time.monotonic() - began:.0f} s")
    if broken:
        say(f"{broken} broken facts in all. The same moments again: add ARGS='--seed {seed}'")
    return 1 if broken else 0


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proof.crash", description=__doc__)
    parser.add_argument(
        "--kills", type=count, default=1000, metavar="N", help="SIGKILLs of workers, for the scenario kills (1000)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="draw the same moments as a run with this seed")
    parser.add_argument("--workers", type=count, default=4, metavar="N", help="worker processes at once (4)")
    parser.add_argument("--times", type=count, metavar="N", help="how often the server dies, the disk is full, …")
    parser.add_argument(
        "--scenario",
        action="append",
        choices=SCENARIOS,
        metavar="NAME",
        help=f"one of {', '.join(SCENARIOS)}; may be repeated; by default all",
    )
    plants = "; ".join(f"{name}: {what}" for name, what in PLANTS.items())
    parser.add_argument(
        "--plant", default="", choices=PLANTS, metavar="NAME", help=f"a fault to plant, which has to be found: {plants}"
    )
    return parser


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]))
