"""The stages of gift cards: one file per stage, each a handler under `@stage(...)`."""

from contextlib import suppress
from dataclasses import replace

from lib.config.project import ORDER_FLOW
from lib.config.settings import Settings
from lib.errors import SettingsError
from lib.giftcards.flow import continuing
from lib.jobs.files import Found, find
from lib.jobs.registry import Registry
from lib.telemetry import events
from lib.telemetry.redact import clean


def load(settings: Settings | None = None) -> Registry:
    """Return the stages in this folder, and in the packages of `GIFTCARD_STAGES`, with their settings read.

    Each file is imported by itself. One that cannot be imported, and a name that two stages have, breaks these stages
    alone: they are in `broken`, and in the log as `stage_broken`. Handlers import heavy libraries when they run.
    """
    found = Found()
    find(__name__, found)
    for package in settings.giftcard_stages if settings else ():
        find(package, found, setting="GIFTCARD_STAGES")
    for name, others in found.stages.items():
        if len(others) > 1 or name in found.broken:
            places = " and ".join(sorted(stage.where for stage in others))
            found.broken.setdefault(name, []).insert(0, f"{places}: the name {name} is used twice: rename one of them")
    stages = {
        # Any other stage may be a step of an order's flow, now or when its job was enqueued.
        name: stage if name in ORDER_FLOW else replace(stage, handler=continuing(stage.handler))
        for name, (stage, *_) in found.stages.items()
        if name not in found.broken
    }
    for stage in stages.values():
        if settings and stage.settings:
            with suppress(SettingsError):  # the stage is parked
                settings.of_stage(stage.settings)  # from now on, its secrets are covered
    broken = {
        name: clean("; ".join(reasons), secrets=settings.secrets() if settings else [])
        for name, reasons in found.broken.items()
    }
    for name, reason in broken.items():
        events.emit("stage_broken", stage=name, reason=reason)
    return Registry(stages, broken)
