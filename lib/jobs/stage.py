"""Stages: kinds of work, each with its handler, its effective settings and its circuit; a file each in `lib/stages`.

A handler takes the validated payload and the context, and returns an outcome; an exception means failure
(`lib.errors` lists the permanent ones). It may run again at any time: external effects go through `context.once`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from lib.config.rates import Rate
from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides, variable
from lib.config.stage_settings import StageSettings
from lib.errors import SettingsError
from lib.job import Outcome, Semantics
from lib.jobs.context import Context
from lib.jobs.declared import check_arguments, check_handler, where
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

    def as_json(self) -> Any:
        """Return the value as JSON."""
        return self.value.as_json() if isinstance(self.value, Rate) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of work. `needs` returns the setting that is missing (None: ready); until then its jobs are parked.

    `where`: file and line. `settings`: the model of its own settings. `own`: the values that its file sets.
    `settings_of`: values that have a setting of their own, by that setting.
    `circuit_of`: the circuit of a job with this payload, where it is not the stage's name. `concurrency_key_of`: its
    concurrency key, if it has one.
    """

    name: str
    where: str
    handler: Handler
    payload: type[BaseModel]
    settings: type[StageSettings] | None
    own: Mapping[str, Any]
    settings_of: Mapping[str, str]
    needs: Callable[[Settings], str | None]
    can_retry: CanRetry | None
    circuit_of: Callable[[Any], str] | None
    concurrency_key_of: Callable[[Any], str | None] | None = None

    def missing(self, settings: Settings) -> str | None:
        """Return the name of a setting that is missing, or a sentence why the stage cannot run; None: it can."""
        try:
            if self.settings is not None:
                settings.of_stage(self.settings)
        except SettingsError as error:
            return str(error)
        try:
            missing = self.needs(settings)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the author's code; its message may hold a setting's value
            return f"its needs raised {type(error).__name__}"
        if missing is None or (isinstance(missing, str) and missing):
            return missing
        return f"its needs returned {type(missing).__name__}, not the name of a setting or None"

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
        return policy_of(settings, retry=retry, threshold=threshold, can_retry=self.can_retry)

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
    settings: type[StageSettings] | None = None,
    policy: RetryPolicy | None = None,
    attempts_setting: str | None = None,
    delays_setting: str | None = None,
    ttr: int = 60,
    longest: int | None = None,
    semantics: Semantics = "at_least_once",
    concurrency: int | None = None,
    rate: Rate | None = None,
    threshold: int | None = None,
    needs: Callable[[Settings], str | None] = lambda settings: None,
    can_retry: CanRetry | None = None,
    circuit_of: Callable[[Any], str] | None = None,
    concurrency_key_of: Callable[[Any], str | None] | None = None,
) -> Callable[[Handler], Stage]:
    """Make a handler a stage. `payload`: the model its payload must fit; one that does not is a permanent error.

    `settings`: the model of the stage's own settings, which `context.stage_settings` returns.
    `attempts_setting`, `delays_setting`: settings that hold the number of attempts, and the delays after each.
    `ttr`, `longest`: seconds one attempt may take, and may take with heartbeats. `concurrency`: runs at once in the
    whole fleet; `rate`: starts in a time, there too. `threshold`: failures in a row that open its circuit. None: the
    value of all stages. `circuit_of`: the circuit of a payload, `<name>:<something>`. `concurrency_key_of`:
    its concurrency key, if it has one: of a tenant's jobs with the same one, one runs at a time.

    Raises:
        StageError: an argument or the handler is impossible. The file is then a broken stage (`lib.stages.load`).
    """
    given = dict(locals())
    check_arguments(given)
    return lambda handler: _declared(given, handler)


def _declared(given: dict[str, Any], handler: Handler) -> Stage:
    check_handler(given["name"], handler)
    of_setting = {"max_attempts": given["attempts_setting"], "delays": given["delays_setting"]}
    same = ("name", "payload", "settings", "needs", "can_retry", "circuit_of", "concurrency_key_of")
    return Stage(
        where=where(handler),
        handler=handler,
        own=_own_values(given),
        settings_of={value: setting for value, setting in of_setting.items() if setting},
        **{name: given[name] for name in same},
    )


def _own_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a stage's file sets. One that holds anyway does not have the file as its source."""
    own = {"ttr_seconds": given["ttr"], "longest_seconds": given["longest"], "semantics": given["semantics"]}
    own |= {"concurrency": given["concurrency"], "rate": given["rate"], "circuit_threshold": given["threshold"]}
    policy: RetryPolicy | None = given["policy"]
    if policy is not None:
        own |= {"max_attempts": policy.max_attempts, "base_seconds": policy.base, "cap_seconds": policy.cap}
        own |= {"jitter": policy.jitter, "delays": policy.delays}
    return {setting: value for setting, value in own.items() if value != _DEFAULTS.get(setting)}


def policy_of(settings: Settings, *, retry: RetryPolicy, threshold: int, can_retry: CanRetry | None) -> FailurePolicy:
    """Return a failure policy with what the settings decide for all stages."""
    return FailurePolicy(
        retry=retry,
        revive_hours=settings.giftcard_failed_job_retry_hours,
        max_revivals=settings.giftcard_max_revivals,
        circuit_threshold=threshold,
        can_retry=can_retry,
    )
