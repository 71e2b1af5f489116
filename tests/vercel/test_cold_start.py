"""What a cold start costs: from the start of the process until it can take a request, beside a bare application.

The figures are printed at the end of the run. Compare the columns with each other, not with another machine's.
"""

import subprocess
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from bench.imports import by_package
from tests.vercel.building import Built
from tests.vercel.serving import Function
from tests.vercel.tools import Tools

pytestmark = pytest.mark.slow

ROUNDS = 5
# Times the bare application, in CPU seconds: the aim, and what we do not let pass.
AIM, MOST = 2.0, 2.5
# None of these answers: nothing is called before a request needs it.
WIRES = {
    "no database": {},
    "Postgres": {"DATABASE_URL": "postgresql://nobody:nothing@127.0.0.1:1/nothing"},
    "Supabase": {"SUPABASE_URL": "https://nowhere.supabase.co", "SUPABASE_SECRET_KEY": "sb_secret_nothing"},
}


# Imported by the request that needs it.
LATE = {"flask", "werkzeug", "jinja2", "sentry_sdk", "babel", "cryptography", "segno", "anyascii", "rich", "supabase"}


@dataclass(frozen=True, slots=True)
class Start:
    """Of one instance: seconds by the clock, which a busy machine draws out, and of CPU, which it hardly does."""

    seconds: float
    cpu: float


def _start(built: Built, environment: dict[str, str], *, needed: Tools) -> Start:
    function = Function(built, environment, python=needed.python_folder)
    function.close()
    return Start(function.seconds, function.cpu_seconds)


def test_a_cold_start_stays_near_that_of_a_bare_application(
    bare: Built, built: Built, needed: Tools, record_property: Any
) -> None:
    starts: dict[str, list[Start]] = {}
    for _ in range(ROUNDS):  # in turns, so that a busy moment meets all of them
        starts.setdefault("flask + httpx alone", []).append(_start(bare, {}, needed=needed))
        for wire, environment in WIRES.items():
            starts.setdefault(f"ours, {wire}", []).append(_start(built, environment, needed=needed))
    least = {name: min(start.cpu for start in of_it) for name, of_it in starts.items()}
    times = {name: cpu / least["flask + httpx alone"] for name, cpu in least.items()}
    for name, of_it in starts.items():
        clock = sorted(start.seconds for start in of_it)
        verdict = "" if times[name] == 1 else f", {times[name]:.1f} times that (aim {AIM:g}: {_verdict(times[name])})"
        figures = f"{least[name]:.2f} s of CPU; by the clock {median(clock):.2f} s ({clock[0]:.2f} to {clock[-1]:.2f})"
        record_property("said", f"cold start, {name}: {figures}{verdict}")
    assert max(times.values()) <= MOST


def _verdict(times: float) -> str:
    return "met" if times <= AIM else "MISSED"


def test_what_the_imports_of_a_start_cost(built: Built, needed: Tools, record_property: Any) -> None:
    for wire in ("Postgres", "Supabase"):
        spent = _imports(built, WIRES[wire], needed=needed)
        heaviest = sorted(spent, key=lambda package: -spent[package])[:8]
        listed = ", ".join(f"{package} {spent[package]:.0f}" for package in heaviest)
        record_property("said", f"imports, {wire}: {sum(spent.values()):.0f} ms; of it {listed}")
        assert {"pydantic", "lib"} <= set(spent)
        assert set(spent) & LATE == set()
    assert "psycopg" not in spent


def _imports(built: Built, environment: dict[str, str], *, needed: Tools) -> dict[str, float]:
    """Milliseconds by package, the best of three."""
    command = [str(needed.python_folder / built.config["runtime"]), "-X", "importtime", "-c", "import api.index"]
    environment = {"PATH": needed.path, "VERCEL_ENV": "production", **built.config["environment"], **environment}
    told = [
        by_package(subprocess.run(command, cwd=built.function, env=environment, capture_output=True, text=True).stderr)
        for _ in range(3)
    ]
    return min(told, key=lambda spent: sum(spent.values()))
