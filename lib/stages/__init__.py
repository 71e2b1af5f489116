"""The kinds of work. A stage is one file here: a handler under `@stage(...)`; `load` finds it.

A handler takes the validated payload and the context, and returns an outcome; an exception means failure
(`lib.errors` says which are permanent). It may run again at any time: what happens outside goes through `context.once`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from lib.context import Context
from lib.job import Outcome
from lib.policy import RetryPolicy
from lib.settings import Settings

Handler = Callable[[Any, Context], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of work. `needs` answers the setting that is missing (None: ready); until then its jobs are parked.

    `threshold`: failures in a row that open its circuit (None: the setting's). `ttr` in seconds.
    """

    name: str
    handler: Handler
    payload: type[BaseModel]
    policy: RetryPolicy | None
    attempts_setting: str | None
    ttr: int
    threshold: int | None
    needs: Callable[[Settings], str | None]

    def policy_in(self, settings: Settings) -> RetryPolicy:
        """Its own policy, else the default one, bent by `MAX_<NAME>_RETRY_ATTEMPTS` and `GIFTCARD_STAGE_<NAME>_*`."""
        own = self.policy or RetryPolicy(
            max_attempts=settings.giftcard_max_attempts,
            base=settings.giftcard_backoff_base_seconds,
            cap=settings.giftcard_backoff_cap_seconds,
        )
        rules = settings.stage_rules.get(self.name)
        attempts = getattr(settings, self.attempts_setting) if self.attempts_setting else own.max_attempts
        if rules is None:
            return RetryPolicy(max_attempts=attempts, base=own.base, cap=own.cap, jitter=own.jitter, delays=own.delays)
        return RetryPolicy(
            max_attempts=rules.max_attempts or attempts,
            base=rules.base_seconds or own.base,
            cap=rules.cap_seconds or own.cap,
            jitter=own.jitter if rules.jitter is None else rules.jitter,
            delays=rules.delays or own.delays,
        )

    def ttr_in(self, settings: Settings) -> int:
        """Seconds one attempt may take."""
        rules = settings.stage_rules.get(self.name)
        return (rules and rules.ttr_seconds) or self.ttr


def stage(
    name: str,
    *,
    payload: type[BaseModel],
    policy: RetryPolicy | None = None,
    attempts_setting: str | None = None,
    ttr: int = 60,
    threshold: int | None = None,
    needs: Callable[[Settings], str | None] = lambda settings: None,
) -> Callable[[Handler], Stage]:
    """Makes a handler a stage. `payload`: the model its payload must fit; one that does not is a permanent error."""
    if ttr is None or ttr <= 0:
        raise ValueError(f"stage {name}: ttr must be a positive number of seconds, not {ttr!r}")

    def wrap(handler: Handler) -> Stage:
        return Stage(
            name=name,
            handler=handler,
            payload=payload,
            policy=policy,
            attempts_setting=attempts_setting,
            ttr=ttr,
            threshold=threshold,
            needs=needs,
        )

    return wrap


@dataclass(frozen=True, slots=True)
class Registry:
    """The stages that this code knows, by name."""

    stages: Mapping[str, Stage]

    def ready(self, settings: Settings) -> dict[str, int]:
        """Stages that can run here, with the ttr of each in seconds: what a claim is told."""
        return {name: one.ttr_in(settings) for name, one in self.stages.items() if one.needs(settings) is None}

    def unready(self, settings: Settings) -> dict[str, str]:
        """Stages that are parked for want of a setting, with its name."""
        missing = {name: one.needs(settings) for name, one in self.stages.items()}
        return {name: setting for name, setting in missing.items() if setting is not None}


def load() -> Registry:
    """Every stage in this folder. Heavy libraries are imported by handlers when they run, not here."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Stage):
                found[value.name] = value
    return Registry(found)
