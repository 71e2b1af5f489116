"""docs/stages.md does what it says: its files are written into a copy of the project, and its test passes there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dev import ROOT
from tests.support.pages import TEXTS

BLOCK = re.compile(r"(?ms)^```(?:python|jinja)\n(?:# |\{# )((?:shop|tests)/\S+)(?: #\})?\n(.*?)^```$")
# What must not mind that a project has stages, settings, templates and steps of its own.
OF_THE_PRODUCT = (
    *("tests/architecture/test_house.py", "tests/config/test_settings.py", "tests/docs/test_docs_events.py"),
    *("tests/jobs/test_new_stage.py", "tests/stages/test_flows_of_orders.py"),
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, with the files of the page."""
    copy = tmp_path_factory.mktemp("copies") / "project"
    # The bytecode is copied, but not what another process is writing.
    ignored = shutil.ignore_patterns("*.pyc.*", ".*", "node_modules")
    shutil.copytree(ROOT, copy, ignore=ignored)
    shutil.copy(ROOT / ".vercelignore", copy)
    shutil.copy(ROOT / ".gitignore", copy)
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    for name, text in BLOCK.findall(TEXTS["stages"]):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    return copy


def passes(project: Path, *paths: str) -> str:
    # A folder of its own: in the common one, pytest would shut out the servers of tests beside it.
    options = ("-p", "no:cacheprovider", "-p", "no:schemathesis", f"--basetemp={project.parent / 'tmp'}")
    command = [sys.executable, "-m", "pytest", "-q", *options, *paths]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GIFTCARD_", "PYTEST_"))}
    ran = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    return ran.stdout


def test_the_test_of_the_page_passes(project: Path) -> None:
    assert passes(project, "tests/test_loyalty_points.py").startswith(".. ")


def test_the_tests_of_the_product_pass_beside_it(project: Path) -> None:
    assert (project / "shop/stages/hooks.py").exists()
    passes(project, *OF_THE_PRODUCT)
