"""A real Postgres for every test that asks for one: the fixtures that people who write stages of their own get, too."""

import os
import sys
from pathlib import Path
from typing import Any

pytest_plugins = ["lib.testing"]

# PG_BIN=/usr/lib/postgresql/15/bin: this process's servers are of another version than the package's.
if "PG_BIN" in os.environ:
    from lib.local.postgres import pg_ctl

    vars(sys.modules[pg_ctl.__module__])["POSTGRES_BIN_PATH"] = Path(os.environ["PG_BIN"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests have measured: each line that one has kept with `record_property("said", …)`, its worker's too."""
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    lines = [value for report in reports for name, value in report.user_properties if name == "said"]
    if lines:
        terminalreporter.section("measured")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
