"""The doctor of an application that does not start: every invalid setting, and all checks of the valid ones."""

from lib import stages
from lib.config.load import read
from lib.errors import SettingsError
from lib.monitoring.doctor.examine import examine
from lib.monitoring.doctor.finding import Json
from lib.store.connect import connect


def examine_invalid(error: SettingsError) -> list[Json]:
    """Return a red line for each sentence of the error, then the lines of `examine` without the invalid settings."""
    fix = "correct it as docs/settings.md describes, or remove the variable; the application does not start with it"
    lines = [{"check": "settings", "level": "red", "message": text, "fix": fix} for text in error.sentences]
    settings, _ = read()
    store = connect(settings)
    try:
        return lines + examine(store, stages.load(settings), settings, probe=True)
    finally:
        store.close()
