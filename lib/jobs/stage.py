"""Stages: a named kind of work with its handler, its settings and its circuit. Each is one file of `lib/stages`.

A handler takes the validated payload and the context, and returns an outcome; an exception means failure
(`lib.errors` says which are permanent). It may run again at any time: what happens outside goes through `context.once`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from lib.config.settings import Settings
from lib.config.stage_overrides import StageRules, variable
from lib.job import Outcome, Semantics
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy

Handler = Callable[[Any, Context], Outcome]
# Asked after each failure with the attempt that failed and the exception: True, False, or None for the policy.
CanRetry = Callable[[int, BaseException], bool | None]

# Said by nobody: the settings of all stages, and what holds without any.
_OF_ALL = {
    "max_attempts": "giftcard_max_attempts",
    "base_seconds": "giftcard_backoff_base_seconds",
    "cap_seconds": "giftcard_backoff_cap_seconds",
    "circuit_threshold": "giftcard_circuit_threshold",
}
_PLAIN = {"jitter": 0.0, "semantics": "at_least_once", "ttr_seconds": 60}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in force, and who said so: a variable, `code` (the stage's file) or `default`."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of work. `needs` answers the setting that is missing (None: ready); until then its jobs are parked.

    `own`: the rules that its file gives it. `settings_of`: rules that have a setting of their own, by that setting.
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

    def rules_in(self, settings: Settings) -> dict[str, Rule]:
        """The rules in force: `GIFTCARD_STAGE_<NAME>_*`, its own setting, its file, those of all stages."""
        return {name: self._rule(name, settings) for name in (*StageRules.model_fields, "circuit_threshold")}

    def policy_in(self, settings: Settings) -> RetryPolicy:
        """How often and when it is tried again."""
        rule = {name: self._rule(name, settings).value for name in StageRules.model_fields}
        return RetryPolicy(
            max_attempts=rule["max_attempts"],
            base=rule["base_seconds"],
            cap=rule["cap_seconds"],
            jitter=rule["jitter"],
            delays=rule["delays"],
        )

    def rule_in(self, settings: Settings, name: str) -> Any:
        """The value of one rule."""
        return self._rule(name, settings).value

    def read(self, payload: dict[str, Any], settings: Settings) -> BaseModel:
        """A payload as a run reads it: from JSON. Models see the settings, and say what is not allowed here.

        Raises:
            ValidationError: it does not fit.
        """
        return self.payload.model_validate_json(json.dumps(payload), context={"settings": settings})

    def _rule(self, name: str, settings: Settings) -> Rule:
        value = getattr(settings.stage_rules.get(self.name), name, None)
        if value is not None:
            return Rule(value, variable(self.name, name))
        setting = self.settings_of.get(name)
        if name == "max_attempts" and "delays" in self.settings_of:
            delays = self._rule("delays", settings)
            return Rule(1 + len(delays.value), delays.source)
        if setting is None and self.own.get(name) is not None:
            return Rule(self.own[name], "code")
        if setting is None and name == "longest_seconds":
            return self._rule("ttr_seconds", settings)
        setting = setting or _OF_ALL.get(name)
        if setting is None:
            return Rule(_PLAIN.get(name), "default")
        return Rule(getattr(settings, setting), setting.upper() if setting in settings.model_fields_set else "default")


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
    """Makes a handler a stage. `payload`: the model its payload must fit; one that does not is a permanent error.

    `attempts_setting`, `delays_setting`: settings that say how often, and after which delays.
    `ttr`, `longest`: seconds one attempt may take, and may take with heartbeats. `concurrency`: runs at once in the
    whole fleet. `threshold`: failures in a row that open its circuit. None: no rule of its own. `circuit_of`: the
    circuit of a payload, `<name>:<something>`.
    """
    if ttr is None or ttr <= 0:
        raise ValueError(f"stage {name}: ttr must be a positive number of seconds, not {ttr!r}")
    own = {"ttr_seconds": ttr, "longest_seconds": longest, "semantics": semantics}
    own |= {"concurrency": concurrency, "circuit_threshold": threshold} | _of_policy(policy)
    of_setting = {"max_attempts": attempts_setting, "delays": delays_setting}
    return lambda handler: Stage(
        name=name,
        handler=handler,
        payload=payload,
        # What is as it would be anyway was not said by the stage.
        own={rule: value for rule, value in own.items() if value != _PLAIN.get(rule)},
        settings_of={rule: setting for rule, setting in of_setting.items() if setting},
        needs=needs,
        can_retry=can_retry,
        circuit_of=circuit_of,
    )


def _of_policy(policy: RetryPolicy | None) -> dict[str, Any]:
    if policy is None:
        return {}
    return {
        "max_attempts": policy.max_attempts,
        "base_seconds": policy.base,
        "cap_seconds": policy.cap,
        "jitter": policy.jitter,
        "delays": policy.delays,
    }


@dataclass(frozen=True, slots=True)
class Registry:
    """The stages that this code knows, by name."""

    stages: Mapping[str, Stage]

    def ready(self, settings: Settings) -> dict[str, int]:
        """Stages that can run here, with the ttr of each in seconds: what a claim is told."""
        ready = [one for one in self.stages.values() if one.needs(settings) is None]
        return {one.name: one.rule_in(settings, "ttr_seconds") for one in ready}

    def limits(self, settings: Settings) -> dict[str, int]:
        """How many runs of a stage there may be at once in the whole fleet, for those that have a limit."""
        limits = {name: one.rule_in(settings, "concurrency") for name, one in self.stages.items()}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def shaped(self, row: dict[str, Any], settings: Settings) -> dict[str, Any]:
        """A job as `giftcard_enqueue` takes it, with what its stage says of it: its circuit, and at most once."""
        one = self.stages.get(row["stage"])
        if one is None:
            return row
        said: dict[str, Any] = {}
        if one.rule_in(settings, "semantics") == "at_most_once":
            said["semantics"] = "at_most_once"
        if one.circuit_of and not row.get("circuit") and row.get("payload") is not None:
            said["circuit"] = one.circuit_of(one.read(row["payload"], settings))
        return row | said

    def longest(self, settings: Settings) -> float:
        """The longest that any attempt may take, with heartbeats (seconds)."""
        longest = (
            one.rule_in(settings, name) for one in self.stages.values() for name in ("ttr_seconds", "longest_seconds")
        )
        return float(max(longest, default=0))

    def unready(self, settings: Settings) -> dict[str, str]:
        """Stages that are parked for want of a setting, with its name."""
        missing = {name: one.needs(settings) for name, one in self.stages.items()}
        return {name: setting for name, setting in missing.items() if setting is not None}
