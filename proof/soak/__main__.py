"""The command `python -m proof.soak`.

    python -m proof.soak --hours 1         an hour of orders and faults
    python -m proof.soak --hours 0.05      three minutes: facts only, too short for trends
    python -m proof.soak report FOLDER     the report and the pictures of an earlier run

All its data is in .local/soak/: the database, and a folder for each run with samples.jsonl, report.md, report.json,
soak.svg, soak.png and the logs. Ctrl-C ends it early, with a report.
Exit codes: 0 passed, 1 a fact is broken or something grew, 2 it could not start.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from dev import LOCAL
from lib.errors import StoreError
from proof.soak.plan import Plan
from proof.soak.report import Results, load, passed, save, written

_FOLDER = LOCAL / "soak"


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m proof.soak", description="Orders and faults for hours.")
    parser.add_argument("--hours", type=_positive, default=1.0, help="how long; fractions are allowed (1)")
    parser.add_argument("--rate", type=_positive, default=100.0, help="orders a minute (100)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="of faults and orders (the time)")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="the folder of all data (.local/soak)")
    parser.add_argument("report", nargs="*", help="report FOLDER: write the report of an earlier run again")
    arguments = parser.parse_args()
    if arguments.report:
        if arguments.report[0] != "report" or len(arguments.report) != 2:
            parser.error("use --hours n, or report FOLDER")
        return conclude(load(Path(arguments.report[1])), Path(arguments.report[1]))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both signals end it in the same way
    plan = Plan(seconds=arguments.hours * 3600, rate=arguments.rate, seed=arguments.seed)
    return run(plan, arguments.folder)


def run(plan: Plan, home: Path) -> int:
    """Run a soak with its data below `home`, and report."""
    from proof.soak.run import Soak  # after the arguments are checked: it imports the whole application

    folder = home / time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    print(f"{plan.seconds / 60:.1f} minutes, {plan.rate:.0f} orders a minute, seed {plan.seed}; data in {folder}")
    try:
        results = Soak(plan, folder=folder, data=home / "postgres").run()
    except StoreError as error:
        print(f"Cannot start: {error}", file=sys.stderr)
        return 2
    return conclude(results, folder)


def conclude(results: Results, folder: Path) -> int:
    """Write and print the report, draw the pictures, and return the exit code."""
    save(results, folder)
    print(f"\n{written(results)}")
    try:
        from proof.soak.plot import draw
    except ImportError:
        print("No pictures: matplotlib is missing, make venv-bench installs it", file=sys.stderr)
    else:
        draw(results, folder)
        print(f"Pictures: {folder / 'soak.svg'} and soak.png")
    return 0 if passed(results) else 1


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and below 10000")
    return value


if __name__ == "__main__":
    sys.exit(main())
