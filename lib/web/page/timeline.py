"""Pictures of a job's runs: when they were, and how long each waited and took. All positions are percent."""

from datetime import datetime
from typing import Any

Json = dict[str, Any]

# The least width that one can see, in percent.
_LEAST = 0.4


def strip(job: Json, runs: list[Json]) -> Json | None:
    """Return the whole time of a job on one line: `points` [{at, result, run_no}], `next` (None: no run is planned),
    `from` and `to`. None: there is nothing to show."""
    moments = [(run, moment) for run in runs if (moment := _moment(run["started_at"]))]
    planned = _moment(job["next_run_at"])
    times = [moment for _, moment in moments] + ([planned] if planned else [])
    created = _moment(job["created_at"])
    if not moments or created is None:
        return None
    first, last = min([created, *times]), max(times)
    length = (last - first).total_seconds() or 1

    def place(moment: datetime) -> float:
        # The points at both ends stay within the picture.
        return round(1.5 + 97 * (moment - first).total_seconds() / length, 2)

    return {
        "from": first,
        "to": last,
        "next": planned and place(planned),
        "points": [{"at": place(at), "result": run["status"], "run_no": run["run_no"]} for run, at in moments],
    }


def bars(runs: list[Json]) -> dict[int, Json]:
    """Return of each run, by its number, how long it waited after its time (`wait`) and took (`took`), as parts of the
    longest one; None where a time is not known."""
    lengths = [(run["start_delay_ms"] or 0) + (run["duration_ms"] or 0) for run in runs]
    longest = max([*lengths, 1])
    return {run["run_no"]: _bar(run, longest) for run in runs}


def _bar(run: Json, longest: float) -> Json:
    wait = max(0, run["start_delay_ms"] or 0) / longest * 100
    took = max(_LEAST, max(0, run["duration_ms"] or 0) / longest * 100)
    wait = min(wait, 100 - took)
    return {"wait": round(wait, 2), "took": round(took, 2)}


def _moment(value: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if value else None
    except ValueError:  # infinity, and times that Python does not have
        return None
