"""How long a soak lasts, how much it orders, and which faults happen when."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

# How often in an hour, and for how many seconds at most.
FAULTS: Mapping[str, tuple[float, float]] = {
    "kill": (30, 0),
    "stop": (10, 0),
    "cut": (20, 0),
    "restart": (6, 1),
    "vendor": (4, 20),
    "mail": (5, 30),
    "read_only": (1, 60),
    "pause": (6, 20),
    "cancel": (20, 15),
    "requeue": (60, 0),
}
_STAGES = ("customer_ingest", "personal_code", "payment", "issue_card", "email")
# From here on a run is long enough for the product's own intervals.
_LONG = 150


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: at which second it begins, what it is, how long it lasts."""

    at: float
    kind: str
    lasts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A soak. `rate`: orders a minute; `seed`: of all that is drawn."""

    seconds: float
    rate: float = 100
    seed: int = 1
    instances: int = 3

    @property
    def is_long(self) -> bool:
        return self.seconds >= _LONG

    @property
    def day(self) -> float:
        """The seconds that a day of retention lasts, so that tables reach their size within a quarter of the run."""
        return min(60.0, max(6.0, self.seconds / 60))

    @property
    def every(self) -> float:
        """Seconds between two samples."""
        return 10.0 if self.is_long else max(1.0, self.seconds / 15)

    @property
    def minute(self) -> float:
        """Seconds between two calls of the clock."""
        return 60.0 if self.is_long else 5.0

    @property
    def ttr(self) -> int:
        """The time limit of a run, after which the lease of a killed one ends."""
        return 20 if self.is_long else 4

    @property
    def drain(self) -> float:
        """Seconds at most, after the last order, until all are done."""
        return 300.0 if self.is_long else 60.0

    def environment(self) -> dict[str, str]:
        """Return the settings of the application that are not defaults, besides its addresses and secrets."""
        short = {} if self.is_long else {"GIFTCARD_BACKOFF_BASE_SECONDS": "1", "GIFTCARD_TICK_BUDGET_SECONDS": "10"}
        ttrs = {f"GIFTCARD_STAGE_{stage.upper()}_TTR_SECONDS": str(self.ttr) for stage in _STAGES}
        return {
            "GIFTCARD_ENV": "test",
            "GIFTCARD_WAKE": "url",
            "GIFTCARD_FLEET_TICKS": "2",
            "GIFTCARD_JOBS_PER_CRON_RUN": "1000",
            "GIFTCARD_CIRCUIT_COOLDOWN_SECONDS": "20" if self.is_long else "2",
            "GIFTCARD_LOG_LEVEL": "debug",
            # days, each of which lasts `day` seconds here
            "GIFTCARD_RETENTION_DAYS": "5",
            "GIFTCARD_ARCHIVE_DAYS": "5",
            "GIFTCARD_HISTORY_DAYS": "15",
            "GIFTCARD_TICK_DAYS": "5",
            "GIFTCARD_CIRCUIT_CHANGE_DAYS": "5",
            **ttrs,
            **short,
        }

    def faults(self) -> list[Fault]:
        """Draw the faults of the run, in the order of their times: each kind at least once."""
        rng = random.Random(self.seed)
        drawn = []
        for kind, (an_hour, lasts) in FAULTS.items():
            for _ in range(max(1, round(an_hour * self.seconds / 3600))):
                at = self.seconds * rng.uniform(0.05, 0.9)
                drawn.append(Fault(at, kind, min(lasts, self.seconds / 15)))
        return sorted(drawn, key=lambda fault: fault.at)
