"""`flask jobs …` on the database of the last demo."""

import importlib
import sys
from pathlib import Path

from flask.cli import ScriptInfo

from demo.database import existing_database
from demo.scenario import set_environment
from lib.errors import StoreError


def run_command(folder: Path, command: list[str]) -> int:
    """Run a command with the demo's keys and return its exit code.

    The demo's vendors are gone, so the ledger takes payments and mails are written as files.
    """
    folder = folder.resolve()
    try:
        return _run(folder, command)
    except StoreError as error:
        print(f"Cannot use the database: {error}", file=sys.stderr)
        return 2


def _run(folder: Path, command: list[str]) -> int:
    with existing_database(folder) as url:
        own = {"DATABASE_URL": url, "GIFTCARD_MAIL_DIR": str(folder / "demo" / "mails")}
        set_environment(own, folder=folder / "demo")
        app = importlib.import_module("api.index").create_app()  # by name, and late: it reads the environment
        try:
            app.cli.main(args=command, prog_name="python -m demo", obj=ScriptInfo(create_app=lambda: app))
        except SystemExit as done:
            return int(done.code or 0)
    return 0
