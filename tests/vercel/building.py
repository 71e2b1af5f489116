"""`vercel build`, on a copy of the tree, and what comes out of it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import ROOT
from tests.vercel.tools import Tools

_PROJECT = {"projectId": "prj_check", "orgId": "team_check", "settings": {"framework": None, "nodeVersion": "24.x"}}

BARE = {
    "api/index.py": """
import httpx
from flask import Flask

app = Flask(__name__)


@app.get("/api/health")
def health():
    return {"httpx": httpx.__version__}
""",
    "requirements.txt": "flask==3.1.3\nhttpx==0.28.1\n",
    "public/robots.txt": "User-agent: *\n",
}


class BuildFailed(Exception):
    """The builder's own words."""


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build, in the folder that was built."""

    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / ".vercel/output"

    @property
    def function(self) -> Path:
        """The one function: its code, its packages and `.vc-config.json`."""
        return self.output / "functions/api/index.func"

    @property
    def config(self) -> dict[str, Any]:
        """How the platform is to run the function."""
        return _json(self.function / ".vc-config.json")

    @property
    def routing(self) -> dict[str, Any]:
        """Routes and crons."""
        return _json(self.output / "config.json")

    def files(self, inside: str = "") -> Iterator[Path]:
        """Every file of the function, below this folder of it."""
        return (path for path in (self.function / inside).rglob("*") if path.is_file())


def _json(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def copy_the_tree(folder: Path) -> None:
    """Into the folder: what git has, and what it does not have yet and does not ignore."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    said = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, said.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def write_bare_application(folder: Path) -> None:
    """Into the folder: Flask and httpx and nothing else, deployed like ours."""
    for name, text in BARE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ours = _json(ROOT / "vercel.json")
    (folder / "vercel.json").write_text(json.dumps({key: ours[key] for key in ("framework", "build", "rewrites")}))


def build(folder: Path, *, tools: Tools) -> str:
    """Builds as the platform does: for production, with the variables that vercel.json sets for builds; what it said.

    It writes into the folder. Raises BuildFailed.
    """
    (folder / ".vercel").mkdir()
    (folder / ".vercel/project.json").write_text(json.dumps(_PROJECT))
    (folder / ".python-version").write_text(f"{tools.python}\n")
    variables = _json(folder / "vercel.json").get("build", {}).get("env", {})
    ran = subprocess.run(
        [str(tools.cli), "build", "--yes", "--prod", "--standalone"],
        cwd=folder,
        env={**os.environ, "PATH": tools.path, "VERCEL_TELEMETRY_DISABLED": "1", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        raise BuildFailed(ran.stdout[-4000:])
    return ran.stdout
