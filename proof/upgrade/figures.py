"""What an upgrade measured, as lines to print."""

from statistics import median

from proof.upgrade.fleet import Call
from proof.upgrade.rollout import NEW, OLD, Rollout

# The calls of a tick, which all of its jobs wait for.
_OF_TICKS = ("giftcard_begin_tick", "giftcard_begin_tick_v2", "giftcard_step", "giftcard_advance_tick")


def lines_of(rollout: Rollout) -> list[str]:
    """Return the figures: one line each."""
    figures, fleet = rollout.figures, rollout.fleet
    calls = [call for process in fleet.processes for call in process.calls]
    during = [call for call in calls if _meets(call, figures.spans)]
    ticks = {version: sum(one.ticks for one in fleet.processes if one.version == version) for version in (OLD, NEW)}
    refused = sum(len(one.refused) for one in fleet.processes)
    begun = [len([one for one in fleet.processes if one.version == version]) for version in (OLD, NEW)]
    seconds = sum(end - began for began, end in figures.spans)
    return [
        f"orders mailed: {rollout.mailed}, {5 * rollout.mailed} jobs and their receipts, in {figures.seconds:.0f} s",
        f"processes: {begun[0]} of version {OLD}, {begun[1]} of version {NEW}; ticks: {ticks[OLD]} and {ticks[NEW]}; "
        f"refused before the migration: {refused}",
        f"migrations: {seconds:.1f} s in {len(figures.spans)} tries of the command; "
        f"looks at the locks: {figures.waits.looks}",
        f"longest wait of a tick for a lock of the migrations: {figures.waits.of_ticks * 1000:.0f} ms; "
        f"of the migrations for ticks: {figures.waits.of_migrator * 1000:.0f} ms",
        f"longest call of a tick: {_longest(during)} while the migrations are applied, {_longest(calls)} in all; "
        f"median {_median(during)} and {_median(calls)}",
        f"receipts that waited while version {OLD} ran alone: {figures.waiting_receipts} ({figures.waiting_for})",
    ]


def _meets(call: Call, spans: list[tuple[float, float]]) -> bool:
    return any(call.began < end and call.began + call.seconds > began for began, end in spans)


def _seconds(calls: list[Call]) -> list[float]:
    return [call.seconds for call in calls if call.function in _OF_TICKS]


def _longest(calls: list[Call]) -> str:
    return f"{max(_seconds(calls), default=0) * 1000:.0f} ms"


def _median(calls: list[Call]) -> str:
    return f"{median(_seconds(calls) or [0]) * 1000:.1f} ms"
