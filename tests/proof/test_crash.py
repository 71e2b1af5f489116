"""The short forms of `make crash`: real deaths over a night's orders, and a fault that is planted and found."""

import pytest

from proof.crash import connections, kills, network, server
from proof.crash.night import Plan

pytestmark = pytest.mark.slow

SHORT = 0.2
"""What the pauses of a night are multiplied by."""


def test_nothing_is_lost_or_doubled_by_kills() -> None:
    said: list[str] = []
    broken = kills.run(Plan(seed=1, kills=15, lanes=2, pace=SHORT), said.append)
    assert not broken, "\n".join(said)
    killed = next(line.split() for line in said if "workers killed" in line)
    assert int(killed[2]) >= 15


def test_a_vendor_that_ignores_keys_is_found_out() -> None:
    broken = kills.run(Plan(seed=2, kills=12, lanes=2, pace=SHORT, plant="keys"), lambda line: None)
    assert any("the vendor has" in line for line in broken), broken


def test_the_server_dies_and_everything_goes_on() -> None:
    """By an immediate stop, then by SIGKILL; what operators read meanwhile is asserted, too."""
    said: list[str] = []
    broken = server.run(Plan(seed=3, times=2, lanes=2, pace=SHORT), said.append)
    assert not broken, "\n".join(said)
    assert "  health: down" in said


def test_others_take_every_connection() -> None:
    said: list[str] = []
    broken = connections.run(Plan(seed=4, times=1, lanes=2, pace=SHORT), said.append)
    assert not broken, "\n".join(said)
    assert any(connections.TOO_MANY in line and "×" in line for line in said), said


def test_a_line_drips_and_cuts() -> None:
    said: list[str] = []
    broken = network.run(Plan(seed=5, times=0, lanes=2, pace=SHORT), said.append)
    assert not broken, "\n".join(said)
    assert any(line.startswith("  the line: ") for line in said)
