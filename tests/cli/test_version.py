"""`flask jobs --version`: what this code is, whatever the database is."""

import platform
import re

from lib.store.store import CODE_VERSION, OLDEST_SCHEMA, VERSION
from tests.cli.conftest import Door
from tests.cli.test_terminal import ROOT


def test_version_needs_no_database(remote: Door) -> None:
    assert remote.says("--version") == (
        f"gift-card jobs {VERSION}: code version {CODE_VERSION}, for schemas from version {OLDEST_SCHEMA} on; "
        f"Python {platform.python_version()}\n"
    )


def test_version_is_the_newest_of_the_changelog() -> None:
    newest = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1].lower() == VERSION
