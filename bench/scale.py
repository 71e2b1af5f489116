"""The sizes of the measurements: in full, or small to check that everything runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`rounds` per contender; `jobs` per drain; the other fields are sizes of tables for claims."""

    rounds: int = 5
    jobs: int = 10_000
    enqueue_batch: int = 1_000
    finished: tuple[int, ...] = (100_000, 1_000_000)
    behind_circuit: int = 100_000
    circuits: int = 1_000
    churned: int = 500_000
    claims: int = 40

    @classmethod
    def quick(cls) -> "Scale":
        """Return a small scale, of a minute or two; its figures mean little."""
        return cls(
            rounds=3, jobs=1_000, finished=(10_000,), behind_circuit=10_000, circuits=100, churned=10_000, claims=10
        )
