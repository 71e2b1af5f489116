"""What a cold start imports, by modules and by bytes of source: figures that no busy machine changes.

The limits are just above what it is. Raise one only for something that each tick needs.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev import ROOT
from tests.support.world import CRON

# By wire: the most modules of ours and of packages, and the most kilobytes of their source, after the first tick.
# Python's own modules differ between its versions.
LIMITS = {
    "postgres": {"own": (128, 510), "packages": (158, 2_500)},
    "supabase": {"own": (128, 510), "packages": (219, 3_640)},
}
# Flask and what comes with it, models of requests, and what other requests and handlers need.
ABSENT = {
    *("flask", "werkzeug", "jinja2", "itsdangerous", "sentry_sdk"),
    *("lib.web.app", "lib.web.auth", "lib.web.problems", "lib.cli", "lib.operations", "lib.jobs.schemas"),
}
# Packages of development that those of production import where they find them.
_OF_DEVELOPMENT = ["rich", "pygments", "trio", "socksio", "brotli", "brotlicffi", "zstandard"]
_PROGRAM = """
import json, sys
sys.modules.update(dict.fromkeys({development!r}))  # not to be imported
sys.path.insert(0, {root!r})
from api import index
index.services.registry()
status = []
if {tick!r}:
    request = {{"PATH_INFO": "/api/cron/giftcard-jobs", "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": {bearer!r}}}
    index.app(request, lambda line, headers: status.append(line))
files = {{name: getattr(module, "__file__", None) for name, module in sys.modules.items()}}
print(json.dumps([status, files]))
"""
_SUPABASE = {"SUPABASE_URL": "https://nowhere.supabase.co", "SUPABASE_SECRET_KEY": "sb_secret_nothing"}


def _imported(environ: dict[str, str], *, tick: bool) -> dict[str, Path]:
    """The modules that a new process has imported, with their files; after a tick, if the database is there."""
    program = _PROGRAM.format(root=str(ROOT), tick=tick, bearer=f"Bearer {CRON}", development=_OF_DEVELOPMENT)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin", "GIFTCARD_ENV": "test", "CRON_SECRET": CRON} | environ,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    status, files = json.loads(ended.stdout)
    assert status == (["200 OK"] if tick else [])
    return {name: Path(file) for name, file in files.items() if file and file.endswith(".py")}


def _weight(files: list[Path]) -> tuple[int, int]:
    return len(files), sum(file.stat().st_size for file in files) // 1_000


@pytest.mark.parametrize("wire", LIMITS)
def test_a_cold_start_imports_no_more_than_it_did(
    wire: str, database_url: str, record_property: Callable[[str, Any], None]
) -> None:
    environ = {"DATABASE_URL": database_url} if wire == "postgres" else _SUPABASE
    imported = _imported(environ, tick=wire == "postgres")
    assert ABSENT & imported.keys() == set()
    own = [file for file in imported.values() if file.is_relative_to(ROOT / "lib")]
    packages = [file for file in imported.values() if "site-packages" in file.parts]
    for name, files in {"own": own, "packages": packages}.items():
        modules, kilobytes = _weight(files)
        record_property("said", f"cold start, {wire}, {name}: {modules} modules, {kilobytes} kB of source")
        most_modules, most_kilobytes = LIMITS[wire][name]
        assert modules <= most_modules, sorted(str(file) for file in files)
        assert kilobytes <= most_kilobytes
