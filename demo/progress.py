"""What is worth a line while the demo runs."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from demo.payments import PaymentService
from demo.receivers import Receiver
from demo.snapshot import Change, Facts, Letter, Run

Line = tuple[str, str]
"""A style and a text."""

_FEW = 3  # so many orders are named, more are counted


class News:
    """Looks again and again, and tells what is new. `attempts`: how many each stage has."""

    def __init__(
        self, facts: Facts, payments: PaymentService, receiver: Receiver, *, attempts: Mapping[str, int]
    ) -> None:
        self._facts = facts
        self._payments = payments
        self._receiver = receiver
        self._attempts = attempts
        self._runs: set[tuple[int, int]] = set()
        self._letters: set[tuple[int, int, str]] = set()
        self._silences = 0
        self._alerts = 0
        self._change = 0

    def look(self) -> list[Line]:
        """What has happened since the last look."""
        letters = self._facts.letters()
        dead = {(letter.job_id, letter.run_no) for letter in letters if letter.status == "error"}
        runs = [run for run in self._facts.runs() if (run.job_id, run.run_no) not in self._runs]
        self._runs |= {(run.job_id, run.run_no) for run in runs}
        told = self._silent()
        told += self._failures(run for run in runs if (run.job_id, run.run_no) not in dead)
        for change in self._facts.changes():
            if change.id > self._change:
                self._change = change.id
                told.append(_changed(change))
        for letter in letters:
            fate = (letter.job_id, letter.revivals, "dead" if letter.status == "error" else "revived")
            if fate not in self._letters and (fate[2] == "dead" or letter.revivals):
                self._letters.add(fate)
                told.append(_of_letter(letter))
        return told + self._alarm()

    def _silent(self) -> list[Line]:
        new = self._payments.silences[self._silences :]
        self._silences += len(new)
        if not new:
            return []
        return [("yellow", f"{_named(new)}: the payment service takes the money, and does not answer")]

    def _alarm(self) -> list[Line]:
        new = self._receiver.alerts[self._alerts :]
        self._alerts += len(new)
        return [("bold", f"operators get an alert: {alert['text']}") for alert in new]

    def _failures(self, runs: Iterable[Run]) -> list[Line]:
        """Runs that fail alike are one line."""

        def alike(run: Run) -> tuple[str, str, str]:
            return run.stage, run.result, run.error or ""

        lines: list[Line] = []
        for (stage, result, error), group in groupby(sorted(runs, key=alike), alike):
            failed = list(group)
            orders = _named([run.order_id for run in failed])
            if result == "INTERRUPTED":
                lines.append(("cyan", f"{orders}: taken over from the process that was killed, to be tried again"))
                continue
            first = failed[0]
            most = first.max_attempts or self._attempts[stage]
            attempt = f"attempt {first.attempt}/{most}" if len(failed) == 1 else f"{len(failed)} attempts"
            again = f", again in {first.pause:.1f} s" if len(failed) == 1 and first.pause is not None else ""
            lines.append(("yellow", f"{orders}: {stage} fails, {attempt}{again}: {without_type(error)}"))
        return lines


def without_type(error: str | None) -> str:
    """`TransientError: no answer` → `no answer`."""
    kind, colon, words = (error or "").partition(": ")
    return words if colon and kind.isidentifier() else error or ""


def _changed(change: Change) -> Line:
    match change.from_state, change.to_state:
        case "closed", "open":
            kinds = change.cause.partition(", the last: ")
            return "red", f"the circuit of {change.circuit} opens: {kinds[0]}; its jobs wait and lose no attempt"
        case _, "half_open":
            return "magenta", f"the circuit of {change.circuit} lets one job through, to see"
        case _, "open":
            return "red", f"the circuit of {change.circuit} opens again: the probe failed"
    return "green", f"the circuit of {change.circuit} closes: {change.cause}"


def _of_letter(letter: Letter) -> Line:
    if letter.status != "error":
        return "green", f"{letter.order_id}: the dead letter revives by itself, with a whole new set of attempts"
    why = without_type(letter.last_error)
    if letter.revives_in is None:
        return "red", f"{letter.order_id}: {letter.stage} is dead for good: {why}"
    return "red", f"{letter.order_id}: {letter.stage} is a dead letter after {letter.attempts} attempts: {why}"


def _named(orders: list[str]) -> str:
    names = sorted(set(orders))
    return ", ".join(names) if len(names) <= _FEW else f"{', '.join(names[:_FEW])} and {len(names) - _FEW} more"
