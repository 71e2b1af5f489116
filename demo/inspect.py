"""Afterwards: `flask jobs …` on the database that the demo has left."""

import importlib
from pathlib import Path

from flask.cli import ScriptInfo

from demo.database import kept_database
from demo.scenario import set_environment


def look(folder: Path, command: list[str]) -> int:
    """Runs the command with the demo's keys; answers its exit code.

    The demo's vendors are gone: our own ledger takes the money, and mails are written as files.
    """
    folder = folder.resolve()
    with kept_database(folder) as url:
        own = {"DATABASE_URL": url, "GIFTCARD_MAIL_DIR": str(folder / "demo" / "mails")}
        set_environment(own, folder=folder / "demo")
        app = importlib.import_module("api.index").app  # by name and late: it reads the environment
        try:
            app.cli.main(args=command, prog_name="python -m demo", obj=ScriptInfo(create_app=lambda: app))
        except SystemExit as done:
            return int(done.code or 0)
    return 0
