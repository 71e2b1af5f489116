"""How often a job is tried, and how long it waits after each attempt. Pure: no clock, no database, no randomness."""

import random
from dataclasses import dataclass

from lib.job import Job

# No setting, stage or hook tries one job more often than this in one round.
MAX_ATTEMPTS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Attempts in all, and the delay in seconds after each: `base` × 2^(n−1), at most `cap`, plus up to `jitter` of it.

    `delays`, where given, are the delays after attempt 1, 2, …; the last one repeats.
    """

    max_attempts: int = 5
    base: float = 5
    cap: float = 300
    jitter: float = 0
    delays: tuple[float, ...] | None = None

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return the seconds to wait after attempt `attempt` has failed, within [d, (1 + jitter) × d]."""
        # 0: an operator's UPDATE set it so while the job ran, and the run was killed.
        attempt = max(attempt, 1)
        if self.delays:
            plain = self.delays[min(attempt, len(self.delays)) - 1]
        else:
            # 2**64 is beyond any cap; a larger exponent only overflows.
            plain = min(self.base * 2.0 ** min(attempt - 1, 64), self.cap)
        return plain * (1 + self.jitter * rng.random())


def max_attempts(job: Job, policy: RetryPolicy) -> int:
    """Return the attempts in all for this job: its own number, else its policy's; never more than 25."""
    if job.semantics == "at_most_once":
        return 1
    return min(job.max_attempts or policy.max_attempts, MAX_ATTEMPTS)
