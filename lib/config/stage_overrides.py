"""What the environment says of single stages: `GIFTCARD_STAGE_<NAME>_…`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lib.errors import SettingsError

Seconds = Annotated[float, Field(ge=0, le=86_400)]


def seconds_list(value: Any) -> Any:
    """`30,60,120` as a list."""
    return [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class StageRules(BaseModel):
    """None: not said. Times in seconds; `longest_seconds`: how far heartbeats may draw out one attempt; `concurrency`:
    runs at once in the whole fleet."""

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


VARIABLE = re.compile(rf"GIFTCARD_STAGE_([A-Z][A-Z0-9_]*?)_({'|'.join(StageRules.model_fields).upper()})")


def said_in(environ: Mapping[str, str]) -> dict[str, StageRules]:
    """The rules by stage. Raises SettingsError for the first that is wrong."""
    found: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        match = VARIABLE.fullmatch(name)
        if match and value:
            found.setdefault(match[1].lower(), {})[match[2].lower()] = value
    return {stage: _rules(stage, values) for stage, values in found.items()}


def _rules(stage: str, values: dict[str, str]) -> StageRules:
    try:
        return StageRules.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        rule = str(first["loc"][0])
        raise SettingsError(f"{variable(stage, rule)}={values[rule]!r}: {first['msg']}") from None


def variable(stage: str, rule: str) -> str:
    """The name of the variable that sets a rule."""
    return f"GIFTCARD_STAGE_{stage}_{rule}".upper()
