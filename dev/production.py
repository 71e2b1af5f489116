"""`make secrets`: the secrets of a deployment, in a file that only its owner can read.

    python -m dev.production        writes to .env.production

It adds those that are missing, and changes none that is there: with another encryption key, cards could not be read.
"""

import fcntl
import os
import re
import stat
import sys
from pathlib import Path

from dev.keys import GENERATORS

_FILE = Path(".env.production")
_LINE = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$")


def main() -> int:
    """Complete the file. Exit codes: 0 it is complete; 1 it cannot be completed."""
    try:
        added, empty = complete(_FILE)
    except OSError as error:
        print(f"{_FILE} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"added to {_FILE}: {', '.join(added)}" if added else f"{_FILE} has all secrets: nothing was added")
    if added:
        print("Keep a copy where you keep passwords: without GIFTCARD_ENCRYPTION_KEYS, card numbers are lost.")
    if empty:
        print(f"without a value: {', '.join(empty)}; remove the line, then repeat this", file=sys.stderr)
        return 1
    return 0


def complete(path: Path) -> tuple[list[str], list[str]]:
    """Add a line `export NAME=value` for each secret that the file lacks. Return the names of these, and of secrets
    that are there without a value.

    The file is never readable for others: it is created for its owner only, and restricted before it is written to.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a file")
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # two at once must not add two of each
        os.fchmod(descriptor, 0o600)
        text = file.read().decode(errors="surrogateescape")
        values = {name: value.strip(" \t\r'\"") for name, value in _LINE.findall(text)}
        missing = [name for name in GENERATORS if name not in values]
        lines = "".join(f"export {name}={GENERATORS[name]()}\n" for name in missing)
        file.write(("\n" if text and not text.endswith("\n") and lines else "").encode() + lines.encode())
    return missing, [name for name in GENERATORS if values.get(name) == ""]


if __name__ == "__main__":
    sys.exit(main())
