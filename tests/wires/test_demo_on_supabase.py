"""`make demo WIRE=supabase`: the whole demo through supabase-py and the stand-in, each a process of its own."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from dev import ROOT
from tests.support.postgrest.caller import SECRET_KEY

pytestmark = pytest.mark.slow

STAND_IN = f"{sys.executable} -m tests.support.postgrest"


def demo(folder: Path, command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | environ
    words = [sys.executable, "-m", "demo", "-v", "--folder", str(folder), "--supabase", command]
    return subprocess.run(words, cwd=ROOT, env=own, capture_output=True, text=True, timeout=240, check=False)


def test_it_comes_out_as_it_does_on_psycopg(tmp_path: Path) -> None:
    """What the shell says of another project changes nothing."""
    run = demo(tmp_path, STAND_IN, SUPABASE_URL="https://elsewhere.supabase.co", SUPABASE_SECRET_KEY="sb_secret_x")
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
    way = re.search(r"wire +supabase-py, (http://\S+)", run.stdout)
    assert way
    assert "114 orders of 104 customers → 112 gift cards, 112 charges, 112 mails" in run.stdout
    assert "✗" not in run.stdout
    for text in (run.stdout, (tmp_path / "demo/log.jsonl").read_text()):
        assert SECRET_KEY not in text
    with pytest.raises(httpx.ConnectError):
        httpx.get(way[1])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("no-such-program", "no-such-program did not start: No such file or directory"),
        (f"{sys.executable} -c pass", "exited before it printed SUPABASE_URL and SUPABASE_SECRET_KEY"),
    ],
)
def test_a_way_that_is_not_there_is_told(tmp_path: Path, command: str, says: str) -> None:
    run = demo(tmp_path, command)
    assert (run.returncode, run.stderr) == (2, ""), run.stdout
    assert says in " ".join(run.stdout.split())


def test_roles_are_made_in_no_database_but_the_demos_own(tmp_path: Path, empty_database_url: str) -> None:
    run = demo(tmp_path, STAND_IN, DATABASE_URL=empty_database_url)
    assert run.returncode == 2
    assert "unset DATABASE_URL" in run.stdout


def test_make_says_how_it_is_started() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--old-file=.venv/.ready-demo", "demo", "WIRE=supabase"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "--supabase" in said.stdout
    assert "-m tests.support.postgrest" in shlex.split(said.stdout.splitlines()[-1])[-1]
