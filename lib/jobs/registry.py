"""The stages of a deployment, by name: those that can run, and those whose files cannot be loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lib.config.settings import Settings
from lib.jobs.failure_policy import FailurePolicy
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import Stage, policy_of


@dataclass(frozen=True, slots=True)
class Registry:
    """The stages that this code knows. `broken`: those whose files cannot be loaded, each with the reason.

    A file without a stage that can be read from it (of hooks, or with a syntax error) is in `broken` by its own name,
    a package of `GIFTCARD_STAGES` that cannot be imported by that of the package.
    """

    stages: Mapping[str, Stage]
    broken: Mapping[str, str] = field(default_factory=dict)

    def knows(self, name: str) -> bool:
        """Return whether there is such a stage, broken or not."""
        return name in self.stages or name in self.broken

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
        return policy_of(settings, retry=retry, threshold=settings.giftcard_circuit_threshold, can_retry=None)

    def ready(self, settings: Settings) -> dict[str, int]:
        """Return the stages that can run here, with the ttr of each in seconds, as a claim takes them."""
        ready = [stage for stage in self.stages.values() if stage.missing(settings) is None]
        return {stage.name: stage.effective(settings, "ttr_seconds") for stage in ready}

    def unready(self, settings: Settings) -> dict[str, str]:
        """Return the stages that are parked, with the name of the missing setting, or a sentence with the reason."""
        missing = {name: stage.missing(settings) for name, stage in self.stages.items()}
        return {name: reason for name, reason in missing.items() if reason is not None} | dict(self.broken)

    def without_circuit(self, settings: Settings) -> list[str]:
        """Return the stages that have no circuit, because their threshold is 0; one that is open closes."""
        return [name for name, stage in self.stages.items() if not stage.failure_policy(settings).circuit_threshold]

    def limits(self, settings: Settings) -> dict[str, dict[str, float]]:
        """Return the limits in the whole fleet of the stages that have any: {"payment": {"runs": 2}}.

        `runs`: at once; `per_second`, `burst`: starts.
        """
        found = {}
        for name, stage in self.stages.items():
            runs, rate = stage.effective(settings, "concurrency"), stage.effective(settings, "rate")
            limit = ({} if runs is None else {"runs": runs}) | (rate.as_json() if rate else {})
            if limit:
                found[name] = limit
        return found

    def longest(self, settings: Settings) -> float:
        """Return the longest time in seconds that any attempt may take, with heartbeats."""
        names = ("ttr_seconds", "longest_seconds")
        return float(
            max((stage.effective(settings, name) for stage in self.stages.values() for name in names), default=0)
        )

    def own_variables(self) -> dict[str, str]:
        """Return the variables of the stages' own settings, each with its stage."""
        models = {name: stage.settings for name, stage in self.stages.items() if stage.settings is not None}
        return {variable: name for name, model in models.items() for variable in model.variables().values()}
