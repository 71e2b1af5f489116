"""`make crash`: real deaths over a night's orders. Exit code 0: every fact holds, 1: some are broken."""

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable, Mapping

from lib.telemetry.events import LOG
from proof.command import count, run
from proof.crash import connections, disk, kills, network, server
from proof.crash.night import Plan, Say
from proof.crash.plants import PLANTS

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
    plan = Plan(seed=seed, kills=chosen.kills, times=chosen.times, lanes=chosen.lanes, plant=chosen.plant)
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
        verdict = f"{len(lines)} facts are broken" if lines else "nothing lost, nothing doubled"
        say(f"== {name}: {verdict}, {time.monotonic() - began:.0f} s")
    return 1 if broken else 0


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proof.crash", description=__doc__)
    parser.add_argument("--kills", type=count, default=1000, metavar="N", help="SIGKILLs of workers (scenario kills)")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat a night, as far as a machine repeats itself")
    parser.add_argument("--lanes", type=count, default=4, metavar="N", help="worker processes at once")
    parser.add_argument("--times", type=count, metavar="N", help="how often the other scenarios do their worst")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one; may be repeated")
    plants = "; ".join(f"{name}: {what}" for name, what in PLANTS.items())
    parser.add_argument("--plant", default="", choices=["", *PLANTS], help=f"plant a fault: {plants}")
    return parser


if __name__ == "__main__":
    run(lambda: main(sys.argv[1:]))
