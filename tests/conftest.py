"""A real Postgres for every test that asks for one: the fixtures that people who write stages of their own get, too."""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["dev.testing", "tests.support.caches", "tests.support.fixtures"]

# A process that keeps no bytecode compiles every module anew: 11 s a worker, 0.5 s a command that tests run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# PG_BIN=/usr/lib/postgresql/15/bin: this process's servers are of another version than the package's.
if "PG_BIN" in os.environ:
    from dev.postgres import pg_ctl

    vars(sys.modules[pg_ctl.__module__])["POSTGRES_BIN_PATH"] = Path(os.environ["PG_BIN"])


# What takes half a minute or more, the longest first.
_LONGEST = (
    "test_demo.py",
    "test_hostile_rows.py",
    "test_docs_testing.py",
    "test_deadlines.py",
    "test_demo_on_supabase.py",
    "test_kept_results.py",
    "test_schemathesis.py",
    "test_pg_cron.py",
    "test_stale_plans.py",
    "test_bench.py",
    "test_outage.py",
    "test_one_by_one.py",
    "test_size.py",
    "test_killed_workers.py",
    "test_docs_stages.py",
    "test_sentry.py",
    "test_known.py",
    "test_deploying.py",
    "test_bounded_answers.py",
    "test_alerts_hostile.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while tests are collected: all that is made lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first, then those with slow tests: the last to begin shall not be the last to end."""
    if "PG_BIN" in os.environ:
        _keep_what_needs_the_server(config, items)
    ranks = {name: rank for rank, name in enumerate(_LONGEST, -len(_LONGEST))}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: ranks.get(item.path.name, item.path not in slow))


def _keep_what_needs_the_server(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what has the same result on every PostgreSQL: tests that start none."""
    starts = {"postgres", "server", "template"}
    kept = [item for item in items if not starts.isdisjoint(getattr(item, "fixturenames", starts))]
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker more than there are cores, because tests wait for servers as often as they compute; but no more
    than there are files to run: each worker takes seconds to start. 0, for a single file: no worker at all."""
    paths = {Path(argument.partition("::")[0]) for argument in config.args}
    files = {file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    most = (os.cpu_count() or 1) + 1
    return min(most, len(files)) if len(files) > 1 else 0


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests have measured: each line that one has kept with `record_property("said", …)`, its worker's too."""
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    lines = [value for report in reports for name, value in report.user_properties if name == "said"]
    if lines:
        terminalreporter.section("measured")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
