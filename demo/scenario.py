"""The scenario: the failures, the schedules, and the times shortened so that it takes a minute."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dev.keys import secrets_file
from lib import stages
from lib.config.settings import Settings

Behavior = Literal["declined", "silent", "busy", "broken"]
"""declined: 402. silent: charges, does not respond. busy: 503 at first. broken: 500 until the attempts are used up."""

BEHAVIORS: Mapping[str, Behavior] = {
    "order-0007": "busy",
    "order-0018": "silent",
    "order-0020": "broken",  # Ada Lovelace
    "order-0035": "busy",
    "order-0054": "silent",
    "order-0063": "declined",  # a unicorn
    "order-0077": "busy",
    "order-0087": "declined",  # J.R. Ewing: "Trust me."
    "order-0106": "silent",
}
BUSY_TIMES = 2

CALL_CRON = "*/5 * * * * *"
"""The ping: a call every five seconds."""
CALL_FAILURES = 2
"""How many 503 responses the first ping gets, and the retries of each."""
TRANSFER_CRON = "*/2 * * * * *"
"""The transfer: a call at most once, with a 500 response."""
REPORT_CRON = "*/2 * * * * *"
REPORT_CRON_DEFAULT = "5 0 * * *"
REPORT_READER = "boss@example.com"
SHOP_BUSY_TIMES = 2
"""How many webhooks get 503 from the shop. The bookkeeper always responds 410."""
MONITOR_EVERY = 1.0
"""Seconds between two checks of the uptime monitor."""

TICKS_PER_SECOND = 4
MAIL_PROBES = 1
"""How many probes of the circuit fail before the mail server is up."""
KILL_AT = 5
"""The process is killed while this many of its payments run: its concurrency."""
WORKER_SETTINGS = {"GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": "5"}
"""The settings of that process: its payments must not time out before it is killed."""
TIMEOUT = 150.0
"""Seconds after which the demo stops, and its checks report what is left."""

SHORTENED: Mapping[str, tuple[str, str]] = {
    "GIFTCARD_STAGE_PAYMENT_BASE_SECONDS": ("0.2", "delay after the first failure of a payment; doubles"),
    "GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": ("2", "time for one attempt of a payment (killed process: 5)"),
    "GIFTCARD_CIRCUIT_COOLDOWN_SECONDS": ("3", "an open circuit starts a probe after this"),
    "GIFTCARD_FAILED_JOB_RETRY_HOURS": ("0.002", "a dead letter is revived after this (7 s)"),
    "GIFTCARD_WEBHOOK_RETRY_SECONDS": ("0.5,1,2", "delays after failed deliveries of a webhook"),
    "GIFTCARD_TICK_LINGER": ("0", "1: a tick waits for jobs due within its minute"),
}
"""By variable: the demo's value, and its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """A setting that the demo shortens, with its default."""

    variable: str
    value: str
    default: str
    meaning: str


def shortened() -> list[Shortened]:
    """Return the shortened settings with their defaults."""
    return [
        Shortened(variable=variable, value=value, default=_default(variable), meaning=meaning)
        for variable, (value, meaning) in SHORTENED.items()
    ]


def _default(variable: str) -> str:
    of_stage = re.fullmatch(r"GIFTCARD_STAGE_([A-Z_]+)_(BASE|TTR)_SECONDS", variable)
    if not of_stage:
        value = Settings.model_fields[variable.lower()].default
        values = value if isinstance(value, tuple) else (int(value),) if isinstance(value, bool) else (value,)
        return ",".join(f"{one:g}" for one in values)
    stage = stages.load().stages[of_stage[1].lower()]
    return f"{stage.effective(Settings.model_construct(), f'{of_stage[2]}_SECONDS'.lower()):g}"


def set_environment(own: Mapping[str, str], *, folder: Path) -> None:
    """Set the demo's environment, and remove all other settings of the application."""
    settings = {name.upper() for name in Settings.model_fields}
    for name in list(os.environ):
        if name in settings or name.startswith("GIFTCARD_"):
            del os.environ[name]
    secrets = secrets_file(folder / "secrets.json")
    os.environ.update({"GIFTCARD_ENV": "development"} | secrets | dict(own))
