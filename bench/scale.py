"""The sizes of the measurements: in full, or small to check that everything runs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`rounds`: the fewest and the most; `jobs` per drain, `sweep` per drain of the sweep; `orders` of the flow.

    `seconds`: those of the whole run; drains take what other chapters leave. The other fields are sizes of tables for
    claims.
    """

    rounds: int = 3
    most_rounds: int = 5
    seconds: float = 1_100
    jobs: int = 30_000
    sweep: int = 5_000
    orders: int = 2_000
    enqueue_batch: int = 1_000
    finished: tuple[int, ...] = (100_000, 1_000_000)
    behind_circuit: int = 100_000
    circuits: int = 1_000
    churned: int = 500_000
    claims: int = 40

    @classmethod
    def quick(cls) -> "Scale":
        """Return a small scale, of two or three minutes; its figures mean little."""
        return cls(
            rounds=1,
            most_rounds=1,
            jobs=3_000,
            sweep=1_000,
            orders=200,
            finished=(10_000,),
            behind_circuit=10_000,
            circuits=100,
            churned=10_000,
            claims=10,
        )

    def in_time(self, *, until: float) -> Iterator[int]:
        """Yield the numbers of rounds: at least two, and up to the most while there is time (`time.monotonic()`)."""
        began = time.monotonic()
        for number in range(self.most_rounds):
            yield number
            per_round = (time.monotonic() - began) / (number + 1)
            if number + 1 >= min(2, self.rounds) and time.monotonic() + per_round > until:
                return
