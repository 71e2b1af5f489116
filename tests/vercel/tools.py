"""What a build needs that Python's packages do not bring: Node.js, a Python that Vercel has, and the Vercel CLI."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dev import LOCAL, ROOT

# The builder's answers and its way to serve are private to it: a newer one is tried by changing this number.
CLI = "58.10.0"
# What Vercel has, the one that we ask for first.
PYTHONS = ((ROOT / ".python-version").read_text().strip(), "3.12", "3.13", "3.14")


class Missing(Exception):
    """The machine cannot build: the message says what it lacks, and `can_be_had` whether its packages have it."""

    def __init__(self, message: str, *, can_be_had: bool = True) -> None:
        super().__init__(message)
        self.can_be_had = can_be_had


@dataclass(frozen=True, slots=True)
class Tools:
    """`python`: the version, and the folder of its program; `cli`: the program of the Vercel CLI."""

    python: str
    python_folder: Path
    cli: Path

    @property
    def path(self) -> str:
        """PATH for the build: uv lies beside our own Python."""
        return os.pathsep.join([str(self.python_folder), str(Path(sys.executable).parent), os.environ["PATH"]])


@cache
def tools() -> Tools:
    """Finds them; installs the CLI into .local/ the first time.

    Raises:
        Missing: Node.js or a Python is not there.
    """
    if not (shutil.which("node") and shutil.which("npm")):
        raise Missing("Node.js and npm are not installed (Debian, Ubuntu: apt install nodejs npm)")
    version, folder = _python()
    return Tools(version, folder, _cli())


def _python() -> tuple[str, Path]:
    for version in PYTHONS:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, ".python-version").write_text(version)  # for pyenv, whose programs look for it
            for program in (f"{sys.base_prefix}/bin/python{version}", f"python{version}"):
                try:
                    found = subprocess.run(
                        [program, "-c", "import sys; print(sys.base_prefix)"],
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                except (OSError, subprocess.CalledProcessError):
                    continue
                return version, Path(found.stdout.strip()) / "bin"
    said = "no Python of Vercel's is installed: 3.12, 3.13 or 3.14 (Debian 13, Ubuntu 24.04 and newer have one)"
    raise Missing(said, can_be_had=False)


def _cli() -> Path:
    folder = LOCAL / f"vercel-{CLI}"
    program = folder / "node_modules/.bin/vercel"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--save-exact", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        subprocess.run(["npm", "install", *options, "--prefix", str(folder), f"vercel@{CLI}"], check=True)
    return program
