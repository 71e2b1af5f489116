"""What finders receive and yield."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from lib.monitoring.verdict.wording import many, moment

Json = dict[str, Any]

# Seconds. A clock calls each minute: as long as in giftcard_newest_silence.
SILENCE = 180
_CAP = 1000
WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Action:
    """The one button. `target`: a circuit, a stage (`*`: everything), an error kind (of `stage`), or an address."""

    label: str
    kind: Literal["resume", "reset_circuit", "requeue", "tick", "open"]
    target: str
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong, and what happens next. `kind`: a stable name."""

    kind: str
    level: Literal["warning", "error"]
    sentence: str
    next: str
    action: Action | None = None


DOCTOR = Action("Open the doctor", "open", "/doctor")


@dataclass(frozen=True)
class Facts:
    """An overview, and what several finders derive from it."""

    overview: Json
    paused_by_setting: bool

    @cached_property
    def ticks(self) -> Json:
        """The facts about ticks."""
        return self.overview.get("ticks") or {}

    @cached_property
    def stages(self) -> dict[str, Json]:
        """The stages by name."""
        return {stage["stage"]: stage for stage in self.overview.get("stages") or ()}

    @cached_property
    def all_paused(self) -> Json | None:
        """The pause of everything: {by, reason, since}."""
        return {"by": "GIFTCARD_PAUSED"} if self.paused_by_setting else self.overview.get("all_paused")

    @cached_property
    def is_silent(self) -> bool:
        """Whether no tick has ended well for three minutes. While the setting pauses everything, none is to."""
        return not self.paused_by_setting and bool(self.ticks.get("silent") or not self.ticks.get("newest"))

    @cached_property
    def stands(self) -> bool:
        """Whether no job starts, so that nothing happens by itself."""
        return self.is_silent or bool(self.all_paused)

    def age(self, time: Any) -> float:
        """Return the seconds since a time, 0 if it is unknown."""
        then, now = moment(time), moment(self.overview.get("now"))
        return (now - then).total_seconds() if then and now else 0.0

    def queued(self, *stages: Json) -> tuple[int, bool]:
        """Return how many jobs of these stages are queued, and whether there may be more."""
        counts = [number(stage, name) for stage in stages for name in ("waiting", "retrying")]
        caps = [number(stage, "cap") or _CAP for stage in stages for _ in range(2)]
        return sum(counts), any(map(int.__ge__, counts, caps))

    def all_wait(self) -> str:
        """Return how many jobs of all stages wait, as a sentence."""
        found, capped = self.queued(*self.stages.values())
        return waiting(found, "job", capped=capped)

    def noun(self, stage: Any) -> str:
        """Return what the jobs of a stage are to people: those of the order flow are orders."""
        if stage == WEBHOOK:
            return "webhook"
        return "order" if stage in (self.overview.get("flow") or ()) else "job"


Finder = Callable[[Facts], Iterator[Trouble]]


def number(row: Json, name: str) -> int:
    """Return a count, 0 if there is none."""
    value = row.get(name)
    return value if isinstance(value, int) else 0


def is_one(found: int, *, capped: bool) -> bool:
    """Return whether the verb of so many is singular."""
    return found == 1 and not capped


def waiting(found: int, noun: str, *, capped: bool = False) -> str:
    """Return `1 order waits and loses no attempt`, or the same of many or none."""
    if not found:
        return f"no {noun} waits"
    verb = "waits and loses" if is_one(found, capped=capped) else "wait and lose"
    return f"{many(found, noun, capped=capped)} {verb} no attempt"
