"""The verdict: one sentence of what is wrong, the worst first, what happens next by itself, and what to do."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from lib.monitoring.verdict import books, services, standstill, work
from lib.monitoring.verdict.facts import DOCTOR, Action, Facts, Finder, Json, Trouble, number
from lib.monitoring.verdict.wording import at, cause, many, moment, since

# Characters of each sentence, with its placeholders of times.
LONGEST = 200
_HALF_PLACEHOLDER = re.compile(r"\{[\dTZ:-]*\Z")
# In the order of the table in `verdict`.
_FINDERS: tuple[Finder, ...] = (
    *(standstill.unfit, standstill.silent, standstill.everything_paused, books.differences, services.circuits),
    *(work.killed, work.waiting_stages, work.overdue, work.dead_letters, work.red_lines, work.late_starts),
    *(services.recovering, services.endpoints),
)
_MINUTES = (1, 2, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, or that all is well. Times are placeholders: see `parts`.

    `level`: of the worst of all troubles. `kind`: a stable name of the first trouble, `ok` without one. `next`: what
    happens by itself, and when. `others`: the sentences of the further troubles, in their order.
    """

    level: Literal["ok", "warning", "error"]
    kind: str
    sentence: str
    next: str
    action: Action | None = None
    others: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return it as a JSON object."""
        return asdict(self) | {"others": list(self.others)}


def verdict(overview: Json, *, paused_by_setting: bool) -> Verdict:
    """Return the verdict on an answer of `giftcard_overview`. It never fails: a fact that is missing is left out.

    | order | trouble | why there |
    | --- | --- | --- |
    | 1 | the database cannot be used: schema and code do not fit, read-only | no job is claimed, no order is taken |
    | 2 | no tick ended well for three minutes | no job starts, and nothing below goes on by itself |
    | 3 | everything is paused | the same, but on purpose |
    | 4 | money and cards do not match | a customer has paid; each hour makes it dearer |
    | 5 | a circuit is open | a service is down: many orders wait, and are tried by themselves |
    | 6 | killed runs are not taken over | money may be on its way, and its result is unknown |
    | 7 | a stage is paused or cannot run | its orders wait for a person |
    | 8 | a due job is not taken | orders are late |
    | 9 | dead letters | single orders failed; they wait for a person, or revive |
    | 10 | the doctor is red | something will stop soon |
    | 11 | jobs start late | everything works, but slowly |
    | 12 | a service was down, and nothing waits for it | the next job shows whether it works again |
    | 13 | webhook endpoints are off, or do not respond | a shop is not notified, no customer waits |

    A trouble that follows from one above it is not listed: a job that waits for an open circuit, the doctor's line of
    ticks.
    """
    facts = Facts(overview, paused_by_setting=paused_by_setting)
    found = [trouble for finder in _FINDERS for trouble in _found(finder, facts)]
    if not found:
        return _ok(facts)
    first, *others = found
    return Verdict(
        level="error" if any(trouble.level == "error" for trouble in found) else "warning",
        kind=first.kind,
        sentence=_cut(first.sentence),
        next=_cut(first.next),
        action=first.action,
        others=tuple(_cut(trouble.sentence) for trouble in others),
    )


def away(error: Exception | str, *, since_time: str | None = None) -> Verdict:
    """Return the verdict while the database, or the deployment, cannot be asked. `since_time`: of the first failure."""
    return Verdict(
        level="error",
        kind="away",
        sentence=_cut(f"The database cannot be asked{since(since_time)}: {cause(str(error), 120)}."),
        next="Nothing is lost: jobs go on with the first tick after it is back. What you see is the last known state.",
    )


def _found(finder: Finder, facts: Facts) -> Iterator[Trouble]:
    try:
        yield from [*finder(facts)]
    except Exception:  # noqa: BLE001 - a row that was changed by hand hides no other trouble
        yield Trouble(
            "unreadable",
            "warning",
            f"The facts about {finder.__name__.replace('_', ' ')} cannot be read.",
            "The other facts are right; to compare them: flask jobs status",
            DOCTOR,
        )


def _ok(facts: Facts) -> Verdict:
    tick = facts.ticks.get("last_good") or {}
    ran = many(started, "job") if (started := number(tick, "started")) else "no job"
    last = f"the last tick ended {at(tick.get('ended_at'))} and ran {ran}" if tick else "no tick is missing"
    return Verdict("ok", "ok", f"All is well: {last}; {_longest_wait(facts)}.", "Ticks go on once a minute.")


def _longest_wait(facts: Facts) -> str:
    """Return the longest wait in steps: the sentence does not change with each second."""
    due, now = moment((facts.overview.get("oldest_due") or {}).get("since")), moment(facts.overview.get("now"))
    if due is None or now is None:
        return "no job is due"
    minutes = (now - due).total_seconds() / 60
    step = next((step for step in _MINUTES if minutes <= step), None)
    if step is None:
        return f"the oldest due job waits since {at(due.isoformat())}"
    return f"nothing waits longer than {'a minute' if step == 1 else 'an hour' if step == 60 else f'{step} minutes'}"


def _cut(text: str) -> str:
    """Return a sentence of at most LONGEST characters, cut at a word, and through no placeholder."""
    if len(text) <= LONGEST:
        return text
    head = text[: LONGEST - 1].rpartition(" ")[0] or text[: LONGEST - 1]
    return f"{_HALF_PLACEHOLDER.sub('', head).rstrip()}…"
