"""Roll an upgrade out and back while orders run on both versions, and print what was measured: `make upgrade`.

Exit codes: 0 nothing failed and nothing is lost, 1 some fact is broken; each is printed after BROKEN.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from textwrap import fill

from dev.migrate import migrate
from dev.postgres import embedded
from proof.counts import count
from proof.ending import exit_with
from proof.upgrade.facts import STAGES
from proof.upgrade.figures import lines_of
from proof.upgrade.release import FAULTS
from proof.upgrade.rollout import Rollout

_LEAST_ORDERS = 60


def main(arguments: list[str] | None = None) -> int:
    """Run the proof on a Postgres of its own, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proof.upgrade", description=__doc__)
    parser.add_argument(
        "--jobs", type=count, default=5000, metavar="N", help="jobs, five an order; at least 300 (5000)"
    )
    parser.add_argument(
        "--fault",
        choices=FAULTS,
        metavar="NAME",
        help=f"a mistake in the next release, which has to be found: {', '.join(FAULTS)}",
    )
    given = parser.parse_args(arguments)
    orders = max(_LEAST_ORDERS, given.jobs // len(STAGES))
    folder = Path(tempfile.mkdtemp(prefix="upgrade-"))
    try:
        with embedded(folder / "postgres") as server:
            migrate(server.url)
            rollout = Rollout(server.url, folder, orders=orders, fault=given.fault)
            try:
                broken = rollout.run()
            finally:
                rollout.close()
            print("\n".join(fill(line, 79, subsequent_indent="  ") for line in lines_of(rollout)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(broken)} broken facts" if broken else "nothing failed, nothing is lost")
    return 1 if broken else 0


if __name__ == "__main__":
    exit_with(main)
