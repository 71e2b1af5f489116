"""A full disk in the short form: words that name it, and nothing is lost once there is room."""

import pytest

from proof.crash import disk
from proof.crash.night import Plan

pytestmark = pytest.mark.slow


def test_a_full_disk_has_its_own_words_and_loses_nothing() -> None:
    said: list[str] = []
    try:
        broken = disk.run(Plan(seed=6, times=1, lanes=2, pace=0.2), said.append, log=False)
    except disk.NoSmallDisk as reason:
        pytest.skip(str(reason))
    assert not broken, "\n".join(said)
    assert any(disk.FULL in line and "×" in line for line in said), said
    assert "  health: disk_full" in said
