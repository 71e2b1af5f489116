"""Stages: kinds of work, each with its handler, its effective settings and its circuit; a file each in `lib/stages`.

A handler takes the validated payload and the context, and returns an outcome; an exception means failure
(`lib.errors` lists the permanent ones). It may run again at any time: external effects go through `context.once`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides, variable
from lib.job import Outcome, Semantics
from lib.jobs.context import Context
from lib.jobs.failure_policy import CanRetry, FailurePolicy
from lib.jobs.retry_policy import RetryPolicy

Handler = Callable[[Any, Context], Outcome]

# The settings of all stages, and the values where neither a setting nor the stage has one.
_OF_ALL_STAGES = {
    "max_attempts": "giftcard_max_attempts",
    "base_seconds": "giftcard_backoff_base_seconds",
    "cap_seconds": "giftcard_backoff_cap_seconds",
    "circuit_threshold": "giftcard_circuit_threshold",
}
_DEFAULTS = {"jitter": 0.0, "semantics": "at_least_once", "ttr_seconds": 60}


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A value in force, and its source: a variable, `code` (the stage's file) or `default`."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of work. `needs` returns the setting that is missing (None: ready); until then its jobs are parked.

    `own`: the values that its file sets. `settings_of`: values that have a setting of their own, by that setting.
    `circuit_of`: the circuit of a job with this payload, where it is not the stage's name.
    """

    name: str
    handler: Handler
    payload: type[BaseModel]
    own: Mapping[str, Any]
    settings_of: Mapping[str, str]
    needs: Callable[[Settings], str | None]
    can_retry: CanRetry | None
    circuit_of: Callable[[Any], str] | None

    def effective_settings(self, settings: Settings) -> dict[str, EffectiveSetting]:
        """Return every setting in force: `GIFTCARD_STAGE_<NAME>_*`, its own setting, its file, those of all stages."""
        return {name: self._effective(name, settings) for name in (*StageOverrides.model_fields, "circuit_threshold")}

    def effective(self, settings: Settings, name: str) -> Any:
        """Return the value in force of one setting."""
        return self._effective(name, settings).value

    def failure_policy(self, settings: Settings) -> FailurePolicy:
        """Return everything that decides about its failed runs."""
        value = {name: setting.value for name, setting in self.effective_settings(settings).items()}
        retry = RetryPolicy(
            max_attempts=value["max_attempts"],
            base=value["base_seconds"],
            cap=value["cap_seconds"],
            jitter=value["jitter"],
            delays=value["delays"],
        )
        # A threshold of 0 for all stages means no circuits at all.
        threshold = value["circuit_threshold"] if settings.giftcard_circuit_threshold else 0
        return _failure_policy(settings, retry=retry, threshold=threshold, can_retry=self.can_retry)

    def read(self, payload: dict[str, Any], settings: Settings) -> BaseModel:
        """Return a payload as a run reads it: from JSON. Models see the settings, and refuse what is not allowed here.

        Raises:
            ValidationError: it does not fit.
        """
        return self.payload.model_validate_json(json.dumps(payload), context={"settings": settings})

    def _effective(self, name: str, settings: Settings) -> EffectiveSetting:
        override = getattr(settings.stage_overrides.get(self.name), name, None)
        if override is not None:
            return EffectiveSetting(override, variable(self.name, name))
        setting = self.settings_of.get(name)
        if name == "max_attempts" and "delays" in self.settings_of:
            delays = self._effective("delays", settings)
            return EffectiveSetting(1 + len(delays.value), delays.source)
        if setting is None and self.own.get(name) is not None:
            return EffectiveSetting(self.own[name], "code")
        if setting is None and name == "longest_seconds":
            return self._effective("ttr_seconds", settings)
        setting = setting or _OF_ALL_STAGES.get(name)
        if setting is None:
            return EffectiveSetting(_DEFAULTS.get(name), "default")
        source = setting.upper() if setting in settings.model_fields_set else "default"
        return EffectiveSetting(getattr(settings, setting), source)


def stage(
    name: str,
    *,
    payload: type[BaseModel],
    policy: RetryPolicy | None = None,
    attempts_setting: str | None = None,
    delays_setting: str | None = None,
    ttr: int = 60,
    longest: int | None = None,
    semantics: Semantics = "at_least_once",
    concurrency: int | None = None,
    threshold: int | None = None,
    needs: Callable[[Settings], str | None] = lambda settings: None,
    can_retry: CanRetry | None = None,
    circuit_of: Callable[[Any], str] | None = None,
) -> Callable[[Handler], Stage]:
    """Make a handler a stage. `payload`: the model its payload must fit; one that does not is a permanent error.

    `attempts_setting`, `delays_setting`: settings that hold the number of attempts, and the delays after each.
    `ttr`, `longest`: seconds one attempt may take, and may take with heartbeats. `concurrency`: runs at once in the
    whole fleet. `threshold`: failures in a row that open its circuit. None: the value of all stages. `circuit_of`: the
    circuit of a payload, `<name>:<something>`.
    """
    if ttr is None or ttr <= 0:
        raise ValueError(f"stage {name}: ttr must be a positive number of seconds, not {ttr!r}")
    own = {"ttr_seconds": ttr, "longest_seconds": longest, "semantics": semantics}
    own |= {"concurrency": concurrency, "circuit_threshold": threshold} | _values_of(policy)
    of_setting = {"max_attempts": attempts_setting, "delays": delays_setting}
    return lambda handler: Stage(
        name=name,
        handler=handler,
        payload=payload,
        # A value that holds anyway does not have the stage's file as its source.
        own={setting: value for setting, value in own.items() if value != _DEFAULTS.get(setting)},
        settings_of={value: setting for value, setting in of_setting.items() if setting},
        needs=needs,
        can_retry=can_retry,
        circuit_of=circuit_of,
    )


def _values_of(policy: RetryPolicy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {
        "max_attempts": policy.max_attempts,
        "base_seconds": policy.base,
        "cap_seconds": policy.cap,
        "jitter": policy.jitter,
        "delays": policy.delays,
    }


def _failure_policy(
    settings: Settings, *, retry: RetryPolicy, threshold: int, can_retry: CanRetry | None
) -> FailurePolicy:
    return FailurePolicy(
        retry=retry,
        revive_hours=settings.giftcard_failed_job_retry_hours,
        max_revivals=settings.giftcard_max_revivals,
        circuit_threshold=threshold,
        can_retry=can_retry,
    )


@dataclass(frozen=True, slots=True)
class Registry:
    """The stages that this code knows, by name."""

    stages: Mapping[str, Stage]

    def failure_policy(self, name: str, settings: Settings) -> FailurePolicy:
        """Return the failure policy of a stage; for one that this code does not know, that of all stages."""
        stage = self.stages.get(name)
        if stage is not None:
            return stage.failure_policy(settings)
        retry = RetryPolicy(
            max_attempts=settings.giftcard_max_attempts,
            base=settings.giftcard_backoff_base_seconds,
            cap=settings.giftcard_backoff_cap_seconds,
        )
        return _failure_policy(settings, retry=retry, threshold=settings.giftcard_circuit_threshold, can_retry=None)

    def ready(self, settings: Settings) -> dict[str, int]:
        """Return the stages that can run here, with the ttr of each in seconds, as a claim takes them."""
        ready = [stage for stage in self.stages.values() if stage.needs(settings) is None]
        return {stage.name: stage.effective(settings, "ttr_seconds") for stage in ready}

    def unready(self, settings: Settings) -> dict[str, str]:
        """Return the stages that are parked because a setting is missing, with its name."""
        missing = {name: stage.needs(settings) for name, stage in self.stages.items()}
        return {name: setting for name, setting in missing.items() if setting is not None}

    def without_circuit(self, settings: Settings) -> list[str]:
        """Return the stages that have no circuit, because their threshold is 0; one that is open closes."""
        return [name for name, stage in self.stages.items() if not stage.failure_policy(settings).circuit_threshold]

    def limits(self, settings: Settings) -> dict[str, int]:
        """Return how many runs of a stage there may be at once in the whole fleet, for those that have a limit."""
        limits = {name: stage.effective(settings, "concurrency") for name, stage in self.stages.items()}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def longest(self, settings: Settings) -> float:
        """Return the longest time in seconds that any attempt may take, with heartbeats."""
        names = ("ttr_seconds", "longest_seconds")
        return float(
            max((stage.effective(settings, name) for stage in self.stages.values() for name in names), default=0)
        )
