"""What checks receive and return: a deployment, a finding."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from lib.config.settings import Settings
from lib.jobs.registry import Registry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """The line of one check. `fix`: what to do; empty if the level is green."""

    level: Literal["green", "yellow", "red"]
    message: str
    fix: str = ""


class FactMissing(Exception):
    """The database did not return this fact: it is unreachable."""


class Facts(dict[str, Any]):
    """The result of `giftcard_doctor`. A check reads a required fact with [] and an optional one with get()."""

    def __missing__(self, name: str) -> Any:
        raise FactMissing(name)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The deployment that is checked.

    `clock`: this process's time when the facts arrived, in seconds since 1970. `took`: the seconds that the call took.
    `root`: the folder of vercel.json, also in the bundle. `probe`: whether to try the services that it uses.
    """

    settings: Settings
    registry: Registry
    root: Path
    probe: bool = False
    facts: Facts = field(default_factory=Facts)
    clock: float = 0
    took: float = 0

    @cached_property
    def vercel(self) -> "VercelFile | None":
        """vercel.json as far as checks need it. None: there is none.

        Raises:
            ValueError: it is invalid.
        """
        try:
            return VercelFile.model_validate_json((self.root / "vercel.json").read_bytes())
        except FileNotFoundError:
            return None


class _Function(BaseModel):
    maxDuration: int | None = None  # noqa: N815 - their name


class _Cron(BaseModel):
    path: str
    schedule: str


class VercelFile(BaseModel):
    """The platform's configuration."""

    functions: dict[str, _Function] = {}
    crons: list[_Cron] = []
    schedules: dict[str, _Cron] = {}


Check = Callable[[Deployment], Finding]


def green(message: str) -> Finding:
    """Return a finding: it works."""
    return Finding("green", message)


def yellow(message: str, *, fix: str) -> Finding:
    """Return a finding: it works, but needs attention."""
    return Finding("yellow", message, fix)


def red(message: str, *, fix: str) -> Finding:
    """Return a finding: it does not work, or will stop working soon."""
    return Finding("red", message, fix)


def span(seconds: float) -> str:
    """Return a duration as text, like 12 s, 7 min, 3 h, 2 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
