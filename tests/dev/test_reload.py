"""`make dev` restarts the application when a file of a project is edited; its database and its port stay."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev import ROOT

STAGE = """from pydantic import BaseModel
from lib.job import Complete
from lib.jobs.stage import stage
class Payload(BaseModel): pass
@stage("hello", payload=Payload)
def hello(payload, context): return Complete()
"""


def wait_for(found: Callable[[], Any], *, seconds: float = 90) -> Any:
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.2)
    return value


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder that the user of an embedded Postgres can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="giftcards-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
def test_an_edit_restarts_the_application_and_nothing_else(project: Path) -> None:
    for folder in ("api", "lib", "dev", "supabase"):
        shutil.copytree(ROOT / folder, project / folder)  # with its bytecode
    file = project / "shop/stages/hello.py"
    file.parent.mkdir(parents=True)
    file.write_text(STAGE)
    log = project / "log.txt"
    environ = {
        "PATH": os.environ["PATH"],
        "GIFTCARD_STAGES": "shop.stages",
        "PORT": "18700",
        "SAMPLE": "0",
        "HOME": str(project),
    }
    with log.open("w") as out:
        server = subprocess.Popen([sys.executable, "-m", "dev.serve"], cwd=project, env=environ, stdout=out, stderr=out)
    try:
        url = wait_for(lambda: next((w for w in log.read_text().split() if w.startswith("http://127.0.0.1:")), None))

        def broken() -> Any:
            try:
                answer = httpx.get(f"{url}/api/health", timeout=5).json()
            except httpx.HTTPError:
                return None
            assert answer["status"] == "up"
            return answer.get("broken_stages", ["none"])

        assert wait_for(broken) == ["none"]
        postgres = (project / ".local/postgres/postmaster.pid").read_text()
        file.write_text(STAGE + "def (\n")
        wait_for(lambda: broken() == ["hello"])
        assert "shop/stages/hello.py:7: SyntaxError" in log.read_text()
        file.write_text(STAGE)
        wait_for(lambda: broken() == ["none"])
        (project / "lib/job.py").write_text((ROOT / "lib/job.py").read_text() + "\ndef (\n")
        wait_for(lambda: "lib/job.py was edited" in log.read_text() and "invalid syntax" in log.read_text())
        assert server.poll() is None, "the next edit starts it again"
        shutil.copy(ROOT / "lib/job.py", project / "lib/job.py")
        wait_for(lambda: broken() == ["none"])
        assert (project / ".local/postgres/postmaster.pid").read_text() == postgres
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert log.read_text().rstrip().endswith("Stopped.")
    assert not (project / ".local/postgres/postmaster.pid").exists()


# The application, and a `make dev` that is killed without a chance to end it.
PARENT = """import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import os; from dev.serve import _end_with_parent; "
                 "parent = os.getppid(); print('ready', flush=True); _end_with_parent(parent)"]).wait()
"""


@pytest.mark.slow
def test_the_application_ends_when_make_dev_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        server.kill()
        # The end of the output: no process holds it any more.
        assert server.communicate(timeout=60)[0] == ""
