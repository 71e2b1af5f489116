"""What the commands of the proofs have in common."""

import argparse
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

# What a shell shows for a command that Ctrl-C has ended.
_INTERRUPTED = 130


def run(main: Callable[[], int]) -> NoReturn:
    """Run a command and end the process with its exit code.

    SIGTERM ends it like Ctrl-C, as runners of CI do it: servers are stopped, file systems unmounted, folders removed.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:
        print("\nEnded early: this proves nothing.", file=sys.stderr)
        code = _INTERRUPTED
    sys.exit(code)


def count(text: str) -> int:
    """Return the number of a command line's argument that counts something. Raise ArgumentTypeError below 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 1000000000")
    return number
