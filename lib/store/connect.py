"""The choice of the wire. Only the one in use is imported: each import slows down a cold start."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import Misconfigured
from lib.store.store import Store


class _NoWire:
    """No database is configured: the application starts, and each call fails with the missing setting."""

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        raise Misconfigured("no database: set DATABASE_URL, or SUPABASE_URL and SUPABASE_SECRET_KEY")

    def close(self) -> None:
        pass


def connect(settings: Settings) -> Store:
    """Return the store of these settings, without opening a connection.

    The Supabase URL and key take precedence over DATABASE_URL, which migrations and psql need in any case.
    """
    key = settings.supabase_secret_key or settings.supabase_service_role_key
    if settings.supabase_url and key:
        from lib.store.supabase import SupabaseWire

        variable = "SUPABASE_SECRET_KEY" if settings.supabase_secret_key else "SUPABASE_SERVICE_ROLE_KEY"
        return Store(
            SupabaseWire(settings.supabase_url.get_secret_value(), key.get_secret_value(), key_variable=variable)
        )
    if settings.database is None:
        return Store(_NoWire())
    from lib.store.postgres import PostgresWire

    return Store(PostgresWire(settings.database.get_secret_value()))


def database_name(settings: Settings) -> str:
    """Return which database these settings lead to, as people call it: its name and host, without user and password."""
    if settings.supabase_url and (settings.supabase_secret_key or settings.supabase_service_role_key):
        return f"Supabase project at {settings.supabase_url.host}"
    if settings.database is None:
        return "no database"
    return settings.database.place
