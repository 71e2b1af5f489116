"""Roll an upgrade out and back while orders run on both versions, and print what was measured: `make upgrade`.

    python -m proof.upgrade --jobs 5000

`--fault NAME` plants a mistake into the next release, which has to be found. Exit codes: 0 all is well, 1 something is
broken, and which.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from dev.migrate import migrate
from dev.postgres import embedded
from proof.command import count, run
from proof.upgrade.facts import STAGES
from proof.upgrade.figures import lines_of
from proof.upgrade.release import FAULTS
from proof.upgrade.rollout import Rollout

_LEAST_ORDERS = 60


def main(arguments: list[str] | None = None) -> int:
    """Run the proof on a Postgres of its own, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m proof.upgrade", description="Upgrade under load, and back.")
    parser.add_argument("--jobs", type=count, default=5000, help="jobs of orders; each order has five (at least 300)")
    parser.add_argument("--fault", choices=FAULTS, help="a mistake to plant into the next release")
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
            print("\n".join(lines_of(rollout)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(broken)} facts are broken" if broken else "nothing failed, nothing is lost")
    return 1 if broken else 0


if __name__ == "__main__":
    run(main)
