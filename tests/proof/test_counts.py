"""The commands of the proofs refuse counts that mean nothing, and claim nothing that was not tried."""

import sys
from collections.abc import Callable

import pytest

from proof.crash.__main__ import main as crash
from proof.simulation.__main__ import main as simulate
from proof.upgrade.__main__ import main as upgrade


@pytest.mark.parametrize("given", ["0", "-1", "many", "1e3", "1000000001"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (lambda: crash(sys.argv[1:]), "--kills"),
        (lambda: crash(sys.argv[1:]), "--workers"),
        (lambda: crash(sys.argv[1:]), "--times"),
        (upgrade, "--jobs"),
        (simulate, "--seeds"),
        (simulate, "--processes"),
    ],
    ids=["kills", "workers", "times", "jobs", "seeds", "processes"],
)
def test_a_count_is_at_least_one(
    command: Callable[[], int],
    option: str,
    given: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["proof", option, given])
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 2
    assert f"argument {option}: {given} is not a number from 1" in capsys.readouterr().err


def test_what_cannot_be_tried_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no mount
    assert crash(["--scenario", "disk"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("== disk: SKIPPED, nothing was tried: no tmpfs can be mounted here")
