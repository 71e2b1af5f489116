"""The events to print while the demo runs."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from demo.payments import PaymentService
from demo.receivers import Receiver
from demo.snapshot import CircuitChange, DeadLetter, Run, Snapshot

Line = tuple[str, str]
"""A style and a text."""

_MAX_NAMES = 3  # more orders are counted


class Progress:
    """Detects new events. `attempts`: the maximum of attempts of each stage."""

    def __init__(
        self, snapshot: Snapshot, payments: PaymentService, receiver: Receiver, *, attempts: Mapping[str, int]
    ) -> None:
        self._snapshot = snapshot
        self._payments = payments
        self._receiver = receiver
        self._attempts = attempts
        self._runs: set[tuple[int, int]] = set()
        self._letters: set[tuple[int, int, str]] = set()
        self._responses_missing = 0
        self._alerts = 0
        self._change = 0

    def poll(self) -> list[Line]:
        """Return lines for the events since the last call."""
        letters = self._snapshot.letters()
        dead = {(letter.job_id, letter.run_no) for letter in letters if letter.status == "error"}
        runs = [run for run in self._snapshot.runs() if (run.job_id, run.run_no) not in self._runs]
        self._runs |= {(run.job_id, run.run_no) for run in runs}
        lines = self._without_response()
        lines += self._failures(run for run in runs if (run.job_id, run.run_no) not in dead)
        for change in self._snapshot.changes():
            if change.id > self._change:
                self._change = change.id
                lines.append(_circuit_line(change))
        for letter in letters:
            state = (letter.job_id, letter.revivals, "dead" if letter.status == "error" else "revived")
            if state not in self._letters and (state[2] == "dead" or letter.revivals):
                self._letters.add(state)
                lines.append(_letter_line(letter))
        return lines + self._alert_lines()

    def _without_response(self) -> list[Line]:
        new = self._payments.without_response[self._responses_missing :]
        self._responses_missing += len(new)
        if not new:
            return []
        return [("yellow", f"{_named(new)}: the payment service charges, but does not respond")]

    def _alert_lines(self) -> list[Line]:
        new = self._receiver.alerts[self._alerts :]
        self._alerts += len(new)
        return [("bold", f"operators get an alert: {alert['text']}") for alert in new]

    def _failures(self, runs: Iterable[Run]) -> list[Line]:
        """Return one line for runs with the same failure."""

        def kind(run: Run) -> tuple[str, str, str]:
            return run.stage, run.result, run.error or ""

        lines: list[Line] = []
        for (stage, result, error), group in groupby(sorted(runs, key=kind), kind):
            failed = list(group)
            orders = _named([run.order_id for run in failed])
            if result == "INTERRUPTED":
                lines.append(("cyan", f"{orders}: taken over from the killed process, and retried"))
                continue
            first = failed[0]
            max_attempts = first.max_attempts or self._attempts[stage]
            attempt = f"attempt {first.attempt}/{max_attempts}" if len(failed) == 1 else f"{len(failed)} attempts"
            retry = f", retry in {first.pause:.1f} s" if len(failed) == 1 and first.pause is not None else ""
            lines.append(("yellow", f"{orders}: {stage} fails, {attempt}{retry}: {without_type(error)}"))
        return lines


def without_type(error: str | None) -> str:
    """Strip the exception's type: `TransientError: no response` → `no response`."""
    kind, colon, message = (error or "").partition(": ")
    return message if colon and kind.isidentifier() else error or ""


def _circuit_line(change: CircuitChange) -> Line:
    match change.from_state, change.to_state:
        case "closed", "open":
            cause = change.cause.partition(", the last: ")[0]
            return "red", f"the circuit of {change.circuit} opens: {cause}; its jobs wait and lose no attempt"
        case _, "half_open":
            return "magenta", f"the circuit of {change.circuit} starts a probe: one job may run"
        case _, "open":
            return "red", f"the circuit of {change.circuit} opens again: the probe failed"
    return "green", f"the circuit of {change.circuit} closes: {change.cause}"


def _letter_line(letter: DeadLetter) -> Line:
    if letter.status != "error":
        return "green", f"{letter.order_id}: the dead letter is revived automatically, with new attempts"
    reason = without_type(letter.last_error)
    if letter.revives_in is None:
        return "red", f"{letter.order_id}: {letter.stage} is dead for good: {reason}"
    return "red", f"{letter.order_id}: {letter.stage} is a dead letter after {letter.attempts} attempts: {reason}"


def _named(orders: list[str]) -> str:
    names = sorted(set(orders))
    return (
        ", ".join(names)
        if len(names) <= _MAX_NAMES
        else f"{', '.join(names[:_MAX_NAMES])} and {len(names) - _MAX_NAMES} more"
    )
