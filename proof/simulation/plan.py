"""What a seed draws before anything happens: who comes, how much goes wrong, and the settings of the deployment."""

from dataclasses import dataclass
from random import Random
from typing import Any

from dev.testing.labs import settings_of
from lib.config.settings import Settings
from proof.simulation.faults import LEVELS
from proof.simulation.outside import ALERTS, CARDS, CHARGES

_OWN = ("customer_ingest", "personal_code", "payment", "issue_card", "email", "webhook")
# Starts a second, and at once, of the stage `draw`, where it has a rate.
RATE, RATE_BURST = 0.2, 2
ENVIRON: dict[str, Any] = {
    "GIFTCARD_ENV": "test",
    "CRON_SECRET": "clock-8kq2Zr7wLx4Vn9Ty3Hs6",
    "GIFTCARD_PUBLIC_URL": "http://app.example",
    "GIFTCARD_ENCRYPTION_KEYS": "dGhpcyBpcyBub3QgYSBzZWNyZXQsIGJ1dCBhIGtleSE=",
    "GIFTCARD_LOOKUP_KEY": "a-lookup-key-of-more-than-32-characters",
    "SMTP_URL": "smtp://mail.example:25",
    "GIFTCARD_ALERT_URL": ALERTS,
    "GIFTCARD_CARD_PROVIDER": "http",
    "GIFTCARD_CARD_URL": CARDS,
    "SQUARE_WEBHOOK_SIGNATURE_KEY": "square-signature-key-of-a-simulation",
    "SQUARE_WEBHOOK_URL": "http://app.example/api/webhooks/square",
    "SQUARE_MERCHANT_ID": "MERCHANT",
    "SQUARE_LOCATION_ID": "LOCATION",
    **{f"GIFTCARD_STAGE_{name.upper()}_TTR_SECONDS": 12 for name in _OWN},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed draws before anything happens."""

    level: float
    vendor_level: float
    provider: str
    wakes: bool
    orders: int
    minutes: int
    options: dict[str, Any]
    versions: list[tuple[float, int]]
    limits: dict[str, int]
    has_rate: bool


def plan_of(seed: int) -> Plan:
    """Draw the plan of a seed."""
    rng = Random(f"plan {seed}")
    minutes = rng.randint(3, 7)
    changes = sorted(rng.uniform(0, 60 * minutes) for _ in range(rng.choice((0, 1, 2))))
    begin = rng.choice((0, 1))
    return Plan(
        level=rng.choice(LEVELS),
        vendor_level=rng.choice((0.0, 0.1, 0.35)),
        provider=rng.choice(("http", "http", "ledger", "square")),
        wakes=rng.random() < 0.4,
        orders=rng.randint(1, 4),
        minutes=minutes,
        options={
            "giftcard_concurrency": rng.choice((1, 2, 5)),
            "giftcard_failed_job_retry_hours": rng.choice((1, 6, 24)),
            "giftcard_max_revivals": rng.choice((1, 3)),
            "giftcard_max_attempts": rng.choice((3, 5)),
            "giftcard_circuit_threshold": rng.choice((3, 3, 2)),
        },
        versions=[(0.0, begin), *((at, 1 + n % 2) for n, at in enumerate(changes, begin))],
        limits={"task": rng.choice((1, 2))} if rng.random() < 0.5 else {},
        has_rate=rng.random() < 0.5,
    )


def settings_for(plan: Plan) -> Settings:
    """Return the settings of the deployment."""
    given: dict[str, Any] = {name.upper(): value for name, value in plan.options.items()}
    payment = {"GIFTCARD_PAYMENT_PROVIDER": plan.provider}
    payment |= {"GIFTCARD_PAYMENT_URL": CHARGES} if plan.provider == "http" else {}
    wake = {"GIFTCARD_WAKE": "url"} if plan.wakes else {}
    return settings_of(**ENVIRON, **given, **payment, **wake)
