"""Chooses the wire. Only the one in use is imported: each import is a user's cold start."""

from typing import Any

from lib.errors import Misconfigured
from lib.settings import Settings
from lib.store.store import Store


class _NoWire:
    """Nothing to call: the application starts all the same, and says what is missing to whoever asks."""

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        raise Misconfigured("no database: set DATABASE_URL to a Postgres connection string")

    def close(self) -> None:
        pass


def connect(settings: Settings) -> Store:
    """The store that these settings ask for. Opens no connection yet."""
    if settings.database_url is None:
        return Store(_NoWire())
    from lib.store.postgres import PostgresWire

    return Store(PostgresWire(settings.database_url.get_secret_value()))
