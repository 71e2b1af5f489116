"""Stages and their pauses."""

from lib.web.openapi.responses.base import Response


class StageRate(Response):
    """How many jobs of a stage may start, in the whole fleet."""

    per_second: float
    burst: int
    """How many may start at once after a pause."""


class Stage(Response):
    """A stage with its effective settings."""

    stage: str
    max_attempts: int
    ttr_seconds: int | None
    """The time limit of a run, in seconds."""
    semantics: str
    rate: StageRate | None
    source: dict[str, str]
    """The origin of each setting: the name of a variable, `code` or `default`."""
    missing_setting: str | None
    """The setting that the stage lacks, or a sentence why it cannot run: its jobs wait for it."""
    paused_by: str | None
    jobs: dict[str, int]
    """Number of jobs by status."""


class StageList(Response):
    """All stages."""

    stages: list[Stage]
    broken_stages: dict[str, str]
    """Stages whose files cannot be loaded, each with the reason: their jobs wait."""
    all_paused_by: str | None
    """Who paused all stages."""


class StagePause(Response):
    """Whether a stage is paused."""

    stage: str
    paused: bool
