"""What a check looks at, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from lib.config.settings import Settings
from lib.jobs.stage import Registry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `mend`: what to do; empty when all is well."""

    level: Literal["green", "yellow", "red"]
    says: str
    mend: str = ""


class NotTold(Exception):
    """The database did not answer with this fact: it is away."""


class Facts(dict[str, Any]):
    """What `giftcard_doctor` answered. A check that must have a fact asks by [], one that can do without by get()."""

    def __missing__(self, name: str) -> Any:
        raise NotTold(name)


@dataclass(frozen=True, kw_only=True)
class Patient:
    """One deployment.

    `clock`: this process's, in seconds since 1970, when the answer came; `took`: seconds until it did.
    `root`: where vercel.json lies, in the bundle too.
    """

    settings: Settings
    registry: Registry
    root: Path
    facts: Facts = field(default_factory=Facts)
    clock: float = 0
    took: float = 0

    @cached_property
    def vercel(self) -> "VercelFile | None":
        """vercel.json, as far as it matters here; None: it is not here. ValueError: it is not as it should be."""
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
    """What the platform was told."""

    functions: dict[str, _Function] = {}
    crons: list[_Cron] = []
    schedules: dict[str, _Cron] = {}


Check = Callable[[Patient], Finding]


def green(says: str) -> Finding:
    """Well."""
    return Finding("green", says)


def yellow(says: str, *, mend: str) -> Finding:
    """It works, but somebody should look."""
    return Finding("yellow", says, mend)


def red(says: str, *, mend: str) -> Finding:
    """It does not work, or will not for long."""
    return Finding("red", says, mend)


def span(seconds: float) -> str:
    """Like 12 s, 7 min, 3 h, 2 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
