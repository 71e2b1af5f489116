"""What a seed lets go wrong. Each thread draws from a stream of its own: leaving one fault out moves no other."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from proof.simulation.machine import Machine

# Of something going wrong at a call, in all: from a quiet night to one that hardly gets on.
LEVELS = (0.0, 0.02, 0.06, 0.15)


@dataclass(slots=True)
class Faults:
    """Draws faults. `left_out`: those that are drawn and do not happen, to shrink a seed; `happened`: the others."""

    machine: Machine
    level: float
    vendor_level: float
    left_out: frozenset[str] = frozenset()
    happened: list[str] = field(default_factory=list)
    active: bool = True
    read_only_until: float = 0.0
    away_until: float = 0.0

    def strikes(self, kind: str, chance: float) -> bool:
        """Return whether a fault happens here. It is named for its thread, its number and its kind."""
        me = self.machine.thread()
        number, drawn = next(me.draws), me.rng.random()
        if not self.active or drawn >= chance:
            return False
        return self._happens(f"{me.name} #{number} {kind}")

    def includes(self, name: str) -> bool:
        """Return whether an actor takes part: a shrunk seed leaves some out."""
        return self._happens(f"actor {name}")

    def choose(self, *choices: float) -> float:
        """Return one of several values, as the thread draws."""
        return self.machine.thread().rng.choice(choices)

    def end(self) -> None:
        """Let nothing go wrong any more."""
        self.active = False
        self.read_only_until = self.away_until = 0.0

    def _happens(self, name: str) -> bool:
        if name in self.left_out:
            return False
        self.happened.append(name)
        return True


def without(happened: Iterable[str], kept: Iterable[str]) -> frozenset[str]:
    """Return what is to be left out so that only `kept` happens."""
    return frozenset(happened) - frozenset(kept)
