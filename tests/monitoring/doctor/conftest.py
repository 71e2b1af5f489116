"""A healthy deployment, for tests to break."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lib.monitoring.doctor.examine import examine
from tests.support.world import World

Lines = dict[str, dict[str, Any]]
Examine = Callable[..., Lines]


@pytest.fixture
def healthy(world: World) -> World:
    """The application as it comes, which its clock has just called."""
    world.tick()
    return world


@pytest.fixture
def examined(tmp_path: Path) -> Examine:
    """Run the checks; return their lines by check. `vercel`: the content of vercel.json; `later`: seconds from now."""

    def run(world: World, *, vercel: Any = None, later: float = 0, **more: Any) -> Lines:
        if vercel is not None:
            (tmp_path / "vercel.json").write_text(vercel if isinstance(vercel, str) else json.dumps(vercel))
            more["root"] = tmp_path
        now = datetime.now(UTC) + timedelta(seconds=later) if later else None
        found = examine(world.store, world.registry, world.settings, now=now, **more)
        names = [line["check"] for line in found]
        assert len(set(names)) == len(names)
        assert all(bool(line["fix"]) is (line["level"] != "green") for line in found), found
        return {line["check"]: line for line in found}

    return run


def levels(lines: Lines) -> dict[str, str]:
    """What is not green."""
    return {name: line["level"] for name, line in lines.items() if line["level"] != "green"}
