"""docs/testing.md does what it says: each of its files is written, and each of its results comes out."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dev import ROOT
from dev.testing.labs import Lab
from dev.testing.vendors import Vendor
from tests.support.pages import TEXTS, named, rows

BLOCK = re.compile(r"(?ms)^```(python|text)\n(.*?)^```$")
# The bytecode of the program is copied, too: to compile it anew takes longer than the tests.
BEING_WRITTEN = shutil.ignore_patterns("*.pyc.*")
FILE = re.compile(r"# (\S+\.py)(, going on)?\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the page works in: the program, and the fixtures of its tests."""
    for folder in ("lib", "dev", "supabase/migrations", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=BEING_WRITTEN)
    for file in ("pytest.ini", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def write(project: Path, text: str) -> None:
    """A block of the page into the file that its first line names."""
    name = FILE.match(text)
    assert name, text
    if name[2]:
        with (project / name[1]).open("a") as file:
            file.write(text.removeprefix(name[0]))
    else:
        (project / name[1]).write_text(text)


def results(project: Path) -> str:
    """What pytest says of the page's tests."""
    options = ("-p", "no:cacheprovider", "-p", "no:schemathesis", f"--basetemp={project / 'tmp'}")
    command = [sys.executable, "-m", "pytest", *options, "tests/test_sms.py"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GIFTCARD_", "PYTEST_"))}
    ran = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=120)
    return ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_page_builds_its_stage_step_by_step(project: Path) -> None:
    outcomes = []
    for language, text in BLOCK.findall(TEXTS["testing"]):
        if language == "python":
            write(project, text)
            continue
        said = results(project)
        for line in text.splitlines():
            assert re.search(rf"(?m){re.escape(line)}(?: in |$)", said), f"{line}\n\n{said}"
        outcomes.append(text.splitlines()[-1])
    assert outcomes == ["1 failed", "1 passed", "4 passed", "2 failed, 4 passed", "6 passed"]


def test_the_pages_tables_name_what_there_is() -> None:
    told = {name.split("(")[0] for cells in rows("testing", columns=2) for name in named(cells[0])}
    lab = {name for name in vars(Lab) if not name.startswith("_")} | {"store", "registry", "settings"}
    vendor = {"url", "default", "requests", "respond"}
    assert vendor <= set(Vendor.__dataclass_fields__) | set(vars(Vendor))
    fixtures = {"lab", "make_lab", "vendor", "connection", "database_url"}
    assert told - {"lab.", "vendor."} == (lab - {"close"}) | vendor | fixtures
