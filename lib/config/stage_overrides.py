"""Defines `GIFTCARD_STAGE_<STAGE>_<SETTING>`: overrides for single stages."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lib.config.parsers import bare
from lib.errors import SettingsError

Seconds = Annotated[float, Field(ge=0, le=86_400)]


def seconds_list(value: Any) -> Any:
    """Split `30,60,120`."""
    return [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class StageOverrides(BaseModel):
    """The overrides of a stage; None: not set. `longest_seconds`: the longest attempt with heartbeats; `concurrency`:
    simultaneous runs in all processes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    max_attempts: int | None = Field(default=None, ge=1, le=25)
    base_seconds: float | None = Field(default=None, gt=0, le=86_400)
    cap_seconds: float | None = Field(default=None, gt=0, le=86_400)
    jitter: float | None = Field(default=None, ge=0, le=1)
    delays: tuple[Seconds, ...] | None = Field(default=None, min_length=1)
    ttr_seconds: int | None = Field(default=None, ge=1, le=3_600)
    longest_seconds: int | None = Field(default=None, ge=1, le=3_600)
    semantics: Literal["at_least_once", "at_most_once"] | None = None
    concurrency: int | None = Field(default=None, ge=1, le=10_000)

    _split_delays = field_validator("delays", mode="before")(seconds_list)


VARIABLE = re.compile(rf"GIFTCARD_STAGE_([A-Z][A-Z0-9_]*?)_({'|'.join(StageOverrides.model_fields).upper()})")


def read(environ: Mapping[str, str]) -> dict[str, StageOverrides]:
    """Return the overrides by stage. Raise SettingsError for the first invalid one."""
    values: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        match = VARIABLE.fullmatch(name)
        if match and bare(value):
            values.setdefault(match[1].lower(), {})[match[2].lower()] = bare(value)
    return {stage: _parse(stage, values_of_stage) for stage, values_of_stage in values.items()}


def _parse(stage: str, values: dict[str, str]) -> StageOverrides:
    try:
        return StageOverrides.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0])
        raise SettingsError(f"{variable(stage, setting)}: {first['msg']}") from None


def variable(stage: str, setting: str) -> str:
    """Return the name of the variable that overrides a stage's setting."""
    return f"GIFTCARD_STAGE_{stage}_{setting}".upper()
