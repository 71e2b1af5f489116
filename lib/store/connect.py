"""Chooses the wire. Only the one in use is imported: each import is a user's cold start."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import Misconfigured
from lib.store.store import Store


class _NoWire:
    """Nothing to call: the application starts all the same, and says what is missing to whoever asks."""

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        raise Misconfigured("no database: set DATABASE_URL, or SUPABASE_URL and SUPABASE_SECRET_KEY")

    def close(self) -> None:
        pass


def connect(settings: Settings) -> Store:
    """The store that these settings ask for. Opens no connection yet.

    Supabase's address and key win over DATABASE_URL, which migrations and psql need in any case.
    """
    key = settings.supabase_secret_key or settings.supabase_service_role_key
    if settings.supabase_url and key:
        from lib.store.supabase import SupabaseWire

        variable = "SUPABASE_SECRET_KEY" if settings.supabase_secret_key else "SUPABASE_SERVICE_ROLE_KEY"
        return Store(SupabaseWire(settings.supabase_url, key.get_secret_value(), key_variable=variable))
    if settings.database_url is None:
        return Store(_NoWire())
    from lib.store.postgres import PostgresWire

    return Store(PostgresWire(settings.database_url.get_secret_value()))
