"""Shrinks a failing seed: leaves out actors and faults for as long as it still fails in the same way."""

import re
import time
from collections.abc import Callable, Sequence

from proof.simulation.night import Night

Play = Callable[[frozenset[str]], Night]
# Replays at most, and seconds that they may take in all.
_MOST = 120
_SECONDS = 90.0
_VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4,})*|\d+(?:\.\d+)?")


def shrunk(night: Night, play: Play, *, most: int = _MOST) -> Night:
    """Return a night of the same seed in which as little as possible happens, and which fails as this one does.

    `play` plays the seed again, without what it is given; `most`: how often.
    """
    left_out: frozenset[str] = frozenset()
    replays, until = 0, time.monotonic() + _SECONDS
    size = max(1, len(night.faults.happened) // 2)
    while replays < most and time.monotonic() < until:
        progress = False
        for chunk in _chunks(night.faults.happened, size):
            replayed = play(left_out | chunk)
            replays += 1
            # Without one fault a night may go on to others.
            fewer = len(replayed.faults.happened) < len(night.faults.happened)
            if fewer and _fails_alike(night, replayed):
                night, left_out, progress = replayed, left_out | chunk, True
                break
            if replays >= most or time.monotonic() >= until:
                break
        if not progress:
            if size == 1:
                break
            size = max(1, size // 2)
    return night


def _chunks(happened: Sequence[str], size: int) -> list[frozenset[str]]:
    """Return what to try to leave out, the last first: what happens after the failure is of no use."""
    return [frozenset(happened[max(0, end - size) : end]) for end in range(len(happened), 0, -size)]


def _fails_alike(night: Night, other: Night) -> bool:
    return bool({_kind(text) for text in night.machine.failures} & {_kind(text) for text in other.machine.failures})


def _kind(failure: str) -> str:
    return _VARYING.sub("…", failure)
