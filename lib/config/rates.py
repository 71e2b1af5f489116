"""Rates: how many jobs of a stage may start in a time, in the whole fleet."""

import math
import re
from dataclasses import dataclass
from typing import Any

# Starts a second, and at once.
MOST_PER_SECOND, MOST_AT_ONCE = 10_000, 100_000
_WORDS = {1: "s sec second seconds", 60: "m min minute minutes", 3600: "h hour hours"}
_SECONDS = {word: seconds for seconds, words in _WORDS.items() for word in words.split()}
_RATE = re.compile(
    rf"([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?)\s*(?:/|\bper\b)\s*({'|'.join(_SECONDS)})(?:\s*,?\s*burst\s+([0-9]{{1,9}}))?",
    re.IGNORECASE | re.ASCII,
)
_EXPECTED = (
    f"must be a rate like 10/s, 600/min, 5 per second or 10/s burst 20: above 0, to {MOST_PER_SECOND} a second, with a "
    f"burst from 1 to {MOST_AT_ONCE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate of starts. `burst`: how many may start at once after a pause; None: those of a second, rounded up."""

    per_second: float
    burst: int | None = None

    @property
    def at_once(self) -> int:
        """How many may start at once."""
        return max(1, math.ceil(self.per_second)) if self.burst is None else self.burst

    def as_json(self) -> dict[str, float]:
        """Return {per_second, burst}."""
        return {"per_second": float(self.per_second), "burst": self.at_once}

    def __str__(self) -> str:
        return f"{self.per_second:g}/s burst {self.at_once}"


def rate(value: Any) -> Any:
    """Parse a rate like `10/s burst 20`."""
    if not isinstance(value, str):
        return value
    match = _RATE.fullmatch(value)
    if not match:
        raise ValueError(_EXPECTED)
    per_second = float(match[1]) / _SECONDS[match[2].lower()]
    burst = None if match[3] is None else int(match[3])
    if not 0 < per_second <= MOST_PER_SECOND or (burst is not None and not 1 <= burst <= MOST_AT_ONCE):
        raise ValueError(_EXPECTED)
    return Rate(per_second=per_second, burst=burst)
