"""The `.env` that `make dev` writes for `flask jobs` in another terminal. Flask reads it; on Vercel it does not exist.

It counts as a whole: a terminal that names another database must not get the keys of development beside it.
"""

import fcntl
import os
from pathlib import Path

from lib.errors import SettingsError

# In the file, its own path.
VARIABLE = "GIFTCARD_DEV_ENV"
# A terminal that has another value of one of these means another database.
_OF_A_DATABASE = (
    *("DATABASE_URL", "POSTGRES_URL", "SUPABASE_URL", "SUPABASE_SECRET_KEY", "SUPABASE_SERVICE_ROLE_KEY"),
    *("GIFTCARD_ENCRYPTION_KEYS", "GIFTCARD_LOOKUP_KEY"),
)


def forget_other_database() -> None:
    """Take back what Flask read from the `.env` of `make dev`, if this terminal names another database.

    Raises:
        SettingsError: it names that one, but `make dev` is not running.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    from dotenv import dotenv_values

    written = dotenv_values(path, encoding="utf-8")
    if any(os.environ.get(name) and os.environ[name] != written.get(name) for name in _OF_A_DATABASE):
        for name, value in written.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        return
    if not is_held(Path(path)):
        raise SettingsError(
            "make dev is not running: start it again, or delete its .env and set DATABASE_URL to use another database"
        )


def is_held(path: Path) -> bool:
    """Return whether a running `make dev` has written this file: it holds a lock on it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
