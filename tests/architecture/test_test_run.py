"""`make test`: as many workers as its files can occupy, and the reasons of what it skips."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dev import ROOT
from tests.conftest import pytest_xdist_auto_num_workers

MOST = (os.cpu_count() or 1) + 1


def workers(*arguments: str) -> int:
    config: Any = SimpleNamespace(args=[str(ROOT / argument) for argument in arguments])
    return pytest_xdist_auto_num_workers(config)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tests"], MOST),
        (["tests/sql", "tests/test_story.py"], MOST),
        (["tests/reports"], 0),
        (["tests/bench"], 2),
        (["tests/test_story.py"], 0),
        (["tests/test_story.py::test_a", "tests/test_story.py::test_b"], 0),
        (["tests/test_story.py", "tests/conftest.py"], 2),
    ],
)
def test_there_are_as_many_workers_as_files_can_occupy(arguments: list[str], expected: int) -> None:
    assert workers(*arguments) == expected


@pytest.mark.slow
def test_it_ends_with_the_reasons_of_what_it_skips(tmp_path: Path) -> None:
    test = "import pytest\n\ndef test_a():\n    pytest.skip('no curl: install curl')\n"
    (tmp_path / "test_skipped.py").write_text(test)
    options = ("-p", "no:cacheprovider", "-p", "no:schemathesis", f"--basetemp={tmp_path / 'tmp'}")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pytest.ini", *options, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "no curl: install curl" in run.stdout.splitlines()[-2], run.stdout
