"""One line at most every ten seconds, at most 80 characters long."""

import time

from proof.soak.sampling import Sample

_EVERY = 10.0
_WIDTH = 80
_MB = 1024 * 1024


class Progress:
    """Prints how far a soak is."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = float("-inf")

    def show(self, sample: Sample, *, faults: int, broken: int) -> None:
        """Print the line of a sample, unless the last one was less than ten seconds ago."""
        if time.monotonic() - self._last < _EVERY - 0.5:
            return
        self._last = time.monotonic()
        print(line(sample, seconds=self._seconds, faults=faults, broken=broken), flush=True)


def line(sample: Sample, *, seconds: float, faults: int, broken: int) -> str:
    """Return the line of a sample."""
    memory = sample["memory"].get("instance 1", 0) / _MB
    database = f"db {sample['database'] / _MB:.0f} MB" if "database" in sample else "db away"
    parts = [
        f"{_clock(sample['t'])} {100 * sample['t'] / seconds:.0f}%",
        f"{sample['accepted']:,} orders",
        f"{sample['checked']:,} done",
        f"{broken} broken",
        f"{faults} faults",
        f"{memory:.0f} MB",
        database,
    ]
    return "  ".join(parts)[:_WIDTH]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
