"""The plot: who meets which fate, what goes by the clock, and the times that are shortened so that it fits a minute."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dev.keys import secrets_file
from lib import stages
from lib.config.settings import Settings

Fate = Literal["declined", "silent", "busy", "broken"]
"""declined: 402. silent: takes the money, does not answer. busy: 503 at first. broken: 500 until its attempts end."""

FATES: Mapping[str, Fate] = {
    "order-0007": "busy",
    "order-0018": "silent",
    "order-0020": "broken",  # Ada Lovelace will not give up
    "order-0035": "busy",
    "order-0054": "silent",
    "order-0063": "declined",  # a unicorn
    "order-0077": "busy",
    "order-0087": "declined",  # J.R. Ewing: "Trust me."
    "order-0106": "silent",
}
BUSY_TIMES = 2

CALL_TIMES = "*/5 * * * * *"
"""A call each five seconds; the first one is answered 503 so often, and each may be tried as often again."""
CALL_FAILURES = 2
ONCE_TIMES = "*/2 * * * * *"
"""When the call is made that may be made once only, and is answered 500."""
REPORT_TIMES = "*/2 * * * * *"
REPORT_TIMES_REALLY = "5 0 * * *"
REPORT_READER = "boss@example.com"
SHOP_BUSY_TIMES = 2
"""So many webhooks meet a shop that is busy. The bookkeeper is not there any more at all: 410."""
MONITOR_EVERY = 1.0
"""Seconds between two looks of the uptime monitor."""

TICKS_PER_SECOND = 4
MAIL_PROBES = 1
"""So many probes of the circuit meet a mail server that is still down."""
KILL_AT = 5
"""The process is killed when so many payments of it are under way: as many as it runs at once."""
DOOMED = {"GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": "5"}
"""Its own settings: it is new and cold, and its payments shall not be over before it is killed."""
PATIENCE = 150.0
"""Seconds after which the demo gives up and says what is left."""

SHORTENED: Mapping[str, tuple[str, str]] = {
    "GIFTCARD_STAGE_PAYMENT_BASE_SECONDS": ("0.2", "pause after the first failure of a payment; doubles"),
    "GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": ("2", "time for one attempt of a payment (killed process: 5)"),
    "GIFTCARD_CIRCUIT_COOLDOWN_SECONDS": ("3", "an open circuit lets a probe through after this"),
    "GIFTCARD_FAILED_JOB_RETRY_HOURS": ("0.002", "a dead letter revives after this (7 s)"),
    "GIFTCARD_WEBHOOK_RETRY_SECONDS": ("0.5,1,2", "pauses after failed deliveries of a webhook"),
    "GIFTCARD_TICK_LINGER": ("0", "1: a tick waits for what is due within its minute"),
}
"""By variable: the demo's value, and what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """One setting that the demo bends; `default` is what the code has for it."""

    variable: str
    value: str
    default: str
    meaning: str


def shortened() -> list[Shortened]:
    """The bent settings beside their real defaults."""
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
    """The process's environment becomes the demo's: what the shell says of our settings does not count here."""
    ours = {name.upper() for name in Settings.model_fields}
    for name in list(os.environ):
        if name in ours or name.startswith("GIFTCARD_"):
            del os.environ[name]
    secrets = secrets_file(folder / "secrets.json")
    os.environ.update({"GIFTCARD_ENV": "development"} | secrets | dict(own))
