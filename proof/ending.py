"""End a command early in the way in which it ends by itself: servers stop, mounts and folders go."""

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

_EARLY = 130
"""The exit code after Ctrl-C, as of a shell."""


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its code. SIGTERM ends it like Ctrl-C, also where a shell has it ignored."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:
        print("\nEnded early: nothing is shown, one way or the other.", file=sys.stderr)
        code = _EARLY
    sys.exit(code)
