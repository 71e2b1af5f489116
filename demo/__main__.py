"""The command `python -m demo`.

    python -m demo                    on the embedded Postgres, or on DATABASE_URL
    python -m demo -v                 the same, with each event, result and check
    python -m demo --supabase COMMAND through the API that COMMAND serves: see demo/supabase.py
    python -m demo page               afterwards: the page of operators on the demo's database
    python -m demo jobs status        `flask jobs …` on it

Exit codes: 0 all checks passed, 1 a check failed, 2 the demo could not start, 130 Ctrl-C.
"""

import argparse
import shlex
import signal
import sys
from pathlib import Path

from dev import LOCAL


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Orders become gift cards.")
    parser.add_argument("--folder", type=Path, default=LOCAL, help="the folder of Postgres, mails and log (.local)")
    parser.add_argument("--supabase", type=shlex.split, metavar="COMMAND", help="serves DATABASE_URL like Supabase")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each event, result and check")
    parser.add_argument("jobs", nargs=argparse.REMAINDER, help="page: serve the page; jobs …: `flask jobs …`")
    arguments = parser.parse_args()
    if arguments.jobs and arguments.jobs[0] != "jobs" and arguments.jobs != ["page"]:
        parser.error(
            f"{arguments.jobs[0]!r} is unknown: use page, jobs status, jobs show ID, jobs requeue ID, jobs tick"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both signals stop it in the same way
    try:
        if arguments.jobs == ["page"]:
            from demo.page import serve_page

            return serve_page(arguments.folder)
        if arguments.jobs:
            from demo.inspect import run_command

            return run_command(arguments.folder, arguments.jobs)
        from demo.run import run_demo

        return run_demo(arguments.folder, supabase=arguments.supabase, verbose=arguments.verbose)
    except KeyboardInterrupt:
        print("Stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
