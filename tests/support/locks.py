"""requirements*.in and requirements*.txt, as tests read them. A part is "" (production), "-demo", "-dev" or
"-bench"."""

import re
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev import ROOT

PARTS = ("", "-demo", "-dev", "-bench")
_ENTRY = re.compile(r"(?m)^(\S+)==(\S+)(?: ; (.+?))?((?: \\\n +--hash=\S+)*)$")


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of a lock. `here`: this machine installs it."""

    version: str
    hashes: tuple[str, ...]
    here: bool


def named(part: str) -> dict[str, Requirement]:
    """What people write, by package: the file of this part, and those that it takes in."""
    found: dict[str, Requirement] = {}
    for line in text(f"requirements{part}.in").splitlines():
        if line.startswith("-r "):
            found |= named(line.removeprefix("-r requirements").removesuffix(".in"))
        elif line and not line.startswith(("#", "-c ")):
            requirement = Requirement(line)
            found[canonicalize_name(requirement.name)] = requirement
    return found


def locked(part: str) -> dict[str, Locked]:
    """What `make lock` makes of it, by package."""
    return {
        name: Locked(version, tuple(re.findall(r"--hash=(\S+)", hashes)), not marker or Marker(marker).evaluate())
        for name, version, marker, hashes in _ENTRY.findall(text(f"requirements{part}.txt"))
    }


def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")
