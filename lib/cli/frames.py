"""Where runs failed, as lines below their table."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def failures(runs: list[Json]) -> Iterator[str]:
    """Render where runs have failed, each place once, the newest first: the frames, the one that raised last."""
    places: dict[str, list[int]] = {}
    for run in runs:
        if run.get("frames"):  # older deployments have none
            places.setdefault("\n".join(map(line, run["frames"])), []).append(run["run_no"])
    for place, numbers in places.items():
        which = f"Runs {', '.join(map(str, numbers))}" if numbers[1:] else f"Run {numbers[0]}"
        yield f"{which} failed here, the last line raised:\n{place}"


def line(frame: Json) -> str:
    """Render a frame: `> shop/stages/sms.py:28 in send: KeyError`. The mark: code of a stage, not of the engine."""
    omitted = f"    … {frame['omitted']} more\n" if frame["omitted"] else ""
    raised = f": {frame['raised']}" if frame["raised"] else ""
    return f"{omitted}  {'>' if frame['own'] else ' '} {frame['file']}:{frame['line']} in {frame['function']}{raised}"
