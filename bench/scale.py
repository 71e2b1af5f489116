"""How much is measured: in full, or just enough to see that everything runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`rounds` of each contender; `jobs` in a drain; the rest are the sizes of the tables that a claim is tried on."""

    rounds: int = 5
    jobs: int = 10_000
    enqueue_batch: int = 1_000
    finished: tuple[int, ...] = (100_000, 1_000_000)
    behind_a_door: int = 100_000
    circuits: int = 1_000
    churned: int = 500_000
    claims: int = 40

    @classmethod
    def quick(cls) -> "Scale":
        """A minute or two; the figures say little."""
        return cls(
            rounds=3, jobs=1_000, finished=(10_000,), behind_a_door=10_000, circuits=100, churned=10_000, claims=10
        )
