"""The command.

    python -m demo                    DATABASE_URL chooses another Postgres than the embedded one
    python -m demo --supabase COMMAND the application goes through what COMMAND serves: see demo/supabase.py
    python -m demo jobs status        afterwards: `flask jobs …` on the demo's database

Exit codes: 0 all came out as it should, 1 something did not (it says what), 2 it could not begin, 130 Ctrl-C.
"""

import argparse
import shlex
import signal
import sys
from pathlib import Path

from dev import LOCAL


def main() -> int:
    """Parses the arguments; see the module."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Orders become gift cards.")
    parser.add_argument("--folder", type=Path, default=LOCAL, help="where Postgres, mails and log are kept (.local)")
    parser.add_argument("--supabase", type=shlex.split, metavar="COMMAND", help="serves DATABASE_URL as Supabase does")
    parser.add_argument("jobs", nargs=argparse.REMAINDER, help="jobs …: what `flask jobs …` does, on its database")
    wanted = parser.parse_args()
    if wanted.jobs and wanted.jobs[0] != "jobs":
        parser.error(f"{wanted.jobs[0]!r} is not known: jobs status, jobs show ID, jobs requeue ID, jobs tick")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both ways of stopping it are the same
    try:
        if wanted.jobs:
            from demo.inspect import look

            return look(wanted.folder, wanted.jobs)
        from demo.run import play

        return play(wanted.folder, supabase=wanted.supabase)
    except KeyboardInterrupt:
        print("Stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
