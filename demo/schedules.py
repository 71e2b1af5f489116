"""What went by the clock: a call that fails twice, one that may be made once only, the report of the day."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from demo.receivers import PING, TRANSFER, Call
from demo.results import Outcome
from demo.scenario import CALL_FAILURES, REPORT_READER
from demo.snapshot import Letter

_PAUSES = (1.0, 2.0)
"""Seconds, as the stage http_call ships; nothing of it is shortened."""


def chapters(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    """What is told of them in the end."""
    yield "scheduled call", list(_pings_told(outcome))
    yield (
        "at most once",
        [
            f"{letter.order_id}: failed at attempt {letter.attempts}, not tried again: a person decides"
            for letter in _dead_calls(outcome)
        ],
    )
    if report := outcome.told.report:
        facts = ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in report.told.items())
        yield "report", [f"of {report.day}, {len(outcome.told.report_mails)} by mail: {facts}"]


def _pings_told(outcome: Outcome) -> Iterator[str]:
    occurrences = _by_key(outcome, PING)
    for first in occurrences[:1]:
        answers = ", ".join(f"{call.status} after {call.at - first[0].at:.1f} s" for call in first)
        yield f"the first: {answers}, under one key"
        yield f"{len(occurrences) - 1} more came at their own times"


def _pings(outcome: Outcome) -> Iterator[str]:
    first, *others = _by_key(outcome, PING) or [[]]
    wanted = [(attempt, 503) for attempt in range(1, CALL_FAILURES + 1)] + [(CALL_FAILURES + 1, 200)]
    if [(call.attempt, call.status) for call in first] != wanted:
        yield f"attempts and answers: {[(call.attempt, call.status) for call in first]}"
    for (one, next_one), pause in zip(pairwise(first), _PAUSES, strict=False):
        if next_one.at - one.at < pause:
            yield f"attempt {next_one.attempt} came after {next_one.at - one.at:.2f} s, not {pause:g}"
    if not others:
        yield "there was no other"
    yield from (f"one of them took {len(calls)} attempts" for calls in others if len(calls) != 1)


def _once(outcome: Outcome) -> Iterator[str]:
    calls = [call for call in outcome.told.calls if call.path == TRANSFER]
    if [call.status for call in calls] != [500]:
        yield f"it was made {len(calls)} times"
    dead = [(letter.attempts, letter.revivals, letter.revives_in) for letter in _dead_calls(outcome)]
    if dead != [(1, 0, None)]:
        yield f"dead letters (attempts, revivals, revives in): {dead}"


def _report(outcome: Outcome) -> Iterator[str]:
    report = outcome.told.report
    if report is None:
        yield "there is none"
        return
    for what, number in (report.counted | {"paid_without_card": 0}).items():
        if report.told[what] != number:
            yield f"{what}: it says {report.told[what]}, and there are {number}"
    readers = [mail.to for mail in outcome.told.report_mails if report.day in mail.subject]
    if readers != [REPORT_READER]:
        yield f"it was mailed to: {', '.join(readers) or 'nobody'}"


RULES: Mapping[str, Callable[[Outcome], Iterator[str]]] = {
    "a scheduled call that failed twice succeeded under its key, and the next ones came at their own times": _pings,
    "a call that may be made once only failed, and was made once": _once,
    "the report of the day came by the clock and by mail, and says what the tables say": _report,
}


def _by_key(outcome: Outcome, path: str) -> list[list[Call]]:
    """The calls of each occurrence, in their order."""
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for call in outcome.told.calls:
        if call.path == path:
            calls[call.key].append(call)
    return list(calls.values())


def _dead_calls(outcome: Outcome) -> list[Letter]:
    return [letter for letter in outcome.letters if letter.stage == "http_call"]
