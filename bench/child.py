"""Runs an operation of a contender in a new process: python -m bench.child ours drain <url> count=10000 batch=10"""

import importlib
import json
import subprocess
import sys
from typing import Any

from bench.measure import Sample
from dev import ROOT


def install(contender: str, url: str) -> None:
    """Install a contender's schema."""
    _call(contender, "install", url)


def measured(contender: str, operation: str, url: str, **options: Any) -> Sample:
    """Run an operation and return its sample."""
    return Sample(**json.loads(_call(contender, operation, url, **options)))


def _call(contender: str, operation: str, url: str, **options: Any) -> str:
    command = [sys.executable, "-m", "bench.child", contender, operation, url]
    command += [f"{name}={json.dumps(value)}" for name, value in options.items()]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise RuntimeError(f"{contender} {operation} failed:\n{ended.stderr}")
    return ended.stdout


def main(contender: str, operation: str, url: str, *options: str) -> None:
    """Run the operation, in the child."""
    arguments = {name: json.loads(value) for name, _, value in (option.partition("=") for option in options)}
    sample = getattr(importlib.import_module(f"bench.contenders.{contender}"), operation)(url, **arguments)
    if sample is not None:
        sys.stdout.write(json.dumps(sample.as_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
