"""Defines `GIFTCARD_STAGE_<STAGE>_<SETTING>`: overrides for single stages."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lib.config.cleaning import bare, check_text
from lib.config.kinds import Delays, Number, RateOfStarts, Whole, lower
from lib.config.sentences import sentence

Semantics = Annotated[Literal["at_least_once", "at_most_once"], BeforeValidator(lower)]


class StageOverrides(BaseModel):
    """The overrides of a stage; None: not set. `longest_seconds`: the longest attempt with heartbeats; `concurrency`:
    simultaneous runs in all processes; `rate`: starts in a time, in all processes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    max_attempts: Whole | None = Field(default=None, ge=1, le=25)
    base_seconds: Number | None = Field(default=None, gt=0, le=86_400)
    cap_seconds: Number | None = Field(default=None, gt=0, le=86_400)
    jitter: Number | None = Field(default=None, ge=0, le=1)
    delays: Delays | None = None
    ttr_seconds: Whole | None = Field(default=None, ge=1, le=3_600)
    longest_seconds: Whole | None = Field(default=None, ge=1, le=3_600)
    semantics: Semantics | None = None
    concurrency: Whole | None = Field(default=None, ge=1, le=10_000)
    rate: RateOfStarts | None = None


VARIABLE = re.compile(rf"GIFTCARD_STAGE_([A-Z][A-Z0-9_]*?)_({'|'.join(StageOverrides.model_fields).upper()})")


def read(environ: Mapping[str, str], errors: list[str]) -> dict[str, StageOverrides]:
    """Return the valid overrides by stage, and add a sentence to `errors` for each invalid one."""
    values: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        match = VARIABLE.fullmatch(name)
        if match and bare(value):
            values.setdefault(match[1].lower(), {})[match[2].lower()] = bare(value)
    return {stage: _parse(stage, values_of_stage, errors) for stage, values_of_stage in values.items()}


def _parse(stage: str, values: dict[str, str], errors: list[str]) -> StageOverrides:
    valid = {}
    for setting, value in values.items():
        try:
            check_text(value)
            StageOverrides.model_validate({setting: value})
        except ValidationError as error:
            wrong = sentence(error.errors(include_input=False)[0], StageOverrides.model_fields[setting])
        except ValueError as error:
            wrong = str(error)
        else:
            valid[setting] = value
            continue
        errors.append(f"{variable(stage, setting)}: {wrong}")
    return StageOverrides.model_validate(valid)


def variable(stage: str, setting: str) -> str:
    """Return the name of the variable that overrides a stage's setting."""
    return f"GIFTCARD_STAGE_{stage}_{setting}".upper()
