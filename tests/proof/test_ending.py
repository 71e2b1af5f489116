"""A command that is ended early closes what it has opened."""

import signal
import subprocess
import sys

import pytest

from dev import ROOT

_COMMAND = """
import time
from contextlib import closing
from types import SimpleNamespace
from proof.ending import exit_with

def main():
    with closing(SimpleNamespace(close=lambda: print("closed", flush=True))):
        print("ready", flush=True)
        time.sleep(60)

exit_with(main)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_its_end_would(number: signal.Signals) -> None:
    # As a shell starts it in the background: with Ctrl-C ignored.
    command = ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, _COMMAND]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "closed\n")
    assert "Ended early" in errors


def test_a_command_exits_with_its_code() -> None:
    command = [sys.executable, "-c", "from proof.ending import exit_with; exit_with(lambda: 1)"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 1
