"""Scheduled jobs: a call that fails twice, a call at most once, and the daily report."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from demo.receivers import PING, TRANSFER, Call
from demo.results import Outcome
from demo.scenario import CALL_FAILURES, REPORT_READER
from demo.snapshot import DeadLetter

_PAUSES = (1.0, 2.0)
"""Seconds: the default of the stage http_call, not shortened."""


def sections(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the summary: title and lines."""
    yield "scheduled call", list(_ping_lines(outcome))
    yield (
        "at most once",
        [
            f"{letter.order_id}: failed at attempt {letter.attempts}, not retried: an operator decides"
            for letter in _dead_calls(outcome)
        ],
    )
    if report := outcome.deliveries.report:
        totals = ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in report.totals.items())
        yield "report", [f"of {report.day}, {len(outcome.deliveries.report_mails)} by mail: {totals}"]


def _ping_lines(outcome: Outcome) -> Iterator[str]:
    occurrences = _by_key(outcome, PING)
    for first in occurrences[:1]:
        responses = ", ".join(f"{call.status} after {call.at - first[0].at:.1f} s" for call in first)
        yield f"the first: {responses}, with one key"
        yield f"{len(occurrences) - 1} more came on schedule"


def _pings(outcome: Outcome) -> Iterator[str]:
    first, *others = _by_key(outcome, PING) or [[]]
    expected = [(attempt, 503) for attempt in range(1, CALL_FAILURES + 1)] + [(CALL_FAILURES + 1, 200)]
    if [(call.attempt, call.status) for call in first] != expected:
        yield f"attempts and responses: {[(call.attempt, call.status) for call in first]}"
    for (one, next_one), pause in zip(pairwise(first), _PAUSES, strict=False):
        if next_one.at - one.at < pause:
            yield f"attempt {next_one.attempt} came after {next_one.at - one.at:.2f} s, not {pause:g}"
    if not others:
        yield "there were no others"
    yield from (f"a later one took {len(calls)} attempts" for calls in others if len(calls) != 1)


def _at_most_once(outcome: Outcome) -> Iterator[str]:
    calls = [call for call in outcome.deliveries.calls if call.path == TRANSFER]
    if [call.status for call in calls] != [500]:
        yield f"it was sent {len(calls)} times"
    dead = [(letter.attempts, letter.revivals, letter.revives_in) for letter in _dead_calls(outcome)]
    if dead != [(1, 0, None)]:
        yield f"dead letters (attempts, revivals, revives in): {dead}"


def _report(outcome: Outcome) -> Iterator[str]:
    report = outcome.deliveries.report
    if report is None:
        yield "there is no report"
        return
    for what, number in (report.counted | {"differences": 0}).items():
        if report.totals[what] != number:
            yield f"{what}: the report has {report.totals[what]}, the tables {number}"
    readers = [mail.to for mail in outcome.deliveries.report_mails if report.day in mail.subject]
    if readers != [REPORT_READER]:
        yield f"it was mailed to: {', '.join(readers) or 'no one'}"


CHECKS: Mapping[str, Callable[[Outcome], Iterator[str]]] = {
    "a scheduled call that failed twice succeeded with the same key, and the next ones came on schedule": _pings,
    "a call at most once failed, and was sent once": _at_most_once,
    "the daily report was created on schedule, sent by mail, and matches the tables": _report,
}


def _by_key(outcome: Outcome, path: str) -> list[list[Call]]:
    """Return the calls of each occurrence, in order."""
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for call in outcome.deliveries.calls:
        if call.path == path:
            calls[call.key].append(call)
    return list(calls.values())


def _dead_calls(outcome: Outcome) -> list[DeadLetter]:
    return [letter for letter in outcome.letters if letter.stage == "http_call"]
