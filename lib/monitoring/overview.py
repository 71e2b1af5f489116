"""The first screen of operators, from one database call: the page, the API and the terminal show the same."""

import time
from typing import Any

from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.monitoring.doctor.examine import examine_facts
from lib.monitoring.verdict import verdict
from lib.store.store import Store
from lib.telemetry.redact import clean, covered

Json = dict[str, Any]


def read(store: Store, registry: Registry, settings: Settings) -> Json:
    """Return what `giftcard_overview` returns, with free texts masked, and besides:

    - `verdict`: what is wrong, as `lib.monitoring.verdict` words it
    - `checks`: the doctor's checks that are not green; its facts are left out, whose ages change with each call
    - `flow`: the stages of an order, in order
    - `missing`: the stages that cannot run here, each with the missing setting or the reason
    - `paused_by_setting`, `runs_ticks`: whether GIFTCARD_PAUSED is set, and whether this deployment runs ticks

    Raises:
        StoreError: the database is unavailable; `lib.monitoring.verdict.away` has the verdict then.
    """
    began = time.monotonic()
    missing = registry.unready(settings)
    found = store.overview(stages=registry.ready(settings), missing=missing)
    facts = found.pop("doctor")
    checks = examine_facts(store, registry, settings, facts=facts, began=began)
    secrets = settings.secrets()
    overview: Json = _masked(found) | {
        "checks": [check for check in checks if check["level"] != "green"],
        "flow": list(settings.giftcard_order_flow),
        "missing": {stage: clean(reason, secrets=secrets) for stage, reason in missing.items()},
        "paused_by_setting": settings.giftcard_paused,
        "runs_ticks": settings.runs_ticks,
    }
    judged = verdict(overview | {"doctor": facts}, paused_by_setting=settings.giftcard_paused)
    return overview | {"verdict": judged.as_json()}


def _masked(found: Json) -> Json:
    """Mask the personal data of all texts. The series are numbers and times alone, and long."""
    series = {name: found.pop(name) for name in ("runs", "starts")}
    minutes = found["ticks"].pop("minutes")
    masked: Json = covered(found)
    masked["ticks"]["minutes"] = minutes
    return masked | series
