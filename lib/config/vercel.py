"""Reads vercel.json, which sets how long a function may run. It is part of the bundle."""

import json
from pathlib import Path

# The longest time that Vercel lets a function run, in seconds.
LONGEST_DURATION = 800

_ROOT = Path(__file__).parents[2]
_FUNCTION = "api/index.py"


def max_duration(root: Path = _ROOT) -> int:
    """Return the function's maxDuration in seconds; without a usable one, the longest that Vercel has."""
    try:
        found = json.loads((root / "vercel.json").read_bytes())["functions"][_FUNCTION]["maxDuration"]
    except (OSError, ValueError, KeyError, TypeError):
        return LONGEST_DURATION
    return found if isinstance(found, int) and 0 < found <= LONGEST_DURATION else LONGEST_DURATION
