"""One verb of one contender in a fresh process: python -m bench.child ours drain <url> count=10000 batch=10"""

import importlib
import json
import subprocess
import sys
from typing import Any

from bench.measure import Sample
from dev import ROOT


def install(contender: str, url: str) -> None:
    """Its schema."""
    _call(contender, "install", url)


def measured(contender: str, verb: str, url: str, **options: Any) -> Sample:
    """What the verb took."""
    return Sample(**json.loads(_call(contender, verb, url, **options)))


def _call(contender: str, verb: str, url: str, **options: Any) -> str:
    command = [sys.executable, "-m", "bench.child", contender, verb, url]
    command += [f"{name}={json.dumps(value)}" for name, value in options.items()]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise RuntimeError(f"{contender} {verb} failed:\n{ended.stderr}")
    return ended.stdout


def main(contender: str, verb: str, url: str, *options: str) -> None:
    """The child's side."""
    arguments = {name: json.loads(value) for name, _, value in (option.partition("=") for option in options)}
    answer = getattr(importlib.import_module(f"bench.contenders.{contender}"), verb)(url, **arguments)
    if answer is not None:
        sys.stdout.write(json.dumps(answer.as_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
