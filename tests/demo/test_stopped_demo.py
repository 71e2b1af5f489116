"""`make demo`, stopped half-way by Ctrl-C, and played again on the same database."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from dev import ROOT
from tests.demo.playing import command, demo, environment, one

pytestmark = pytest.mark.slow


def test_stopped_half_way_it_leaves_no_process_and_the_next_one_plays(empty_database_url: str, tmp_path: Path) -> None:
    url = empty_database_url
    process = subprocess.Popen(
        command(tmp_path, "-v"),
        cwd=ROOT,
        env=environment(url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout
    worker = 0
    for line in process.stdout:
        if killed := re.search(r"process (\d+) is killed", line):
            worker = int(killed[1])
        if "the circuit of email opens" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert (process.wait(timeout=30), rest.splitlines()[-1]) == (130, "Stopped.")
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)

    second = demo(tmp_path, "-v", database_url=url)
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.search(r"\d+ jobs of a stopped demo cancelled", second.stdout)
    left = "select count(*) from giftcard_jobs where status in ('queued', 'running')"
    assert one(url, left) == 0
    assert one(url, "select count(distinct tenant_id) from giftcard_orders") == 2
    assert one(url, "select count(*) from giftcard_schedules") == 0
