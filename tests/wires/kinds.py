"""The three ways to the database that everything has to work on."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lib.store.postgres import PostgresWire
from lib.store.supabase import SupabaseWire
from lib.store.wire import Wire
from tests.support.postgrest.caller import SECRET_KEY
from tests.support.postgrest.server import stand_in
from tests.wires.pgbouncer import PgBouncer
from tests.wires.proxy import Proxy, proxy

WIRES = ["psycopg", "pgbouncer", "supabase"]


def a_wire(kind: str, url: str, *, pooler: Callable[[], PgBouncer], closing: ExitStack) -> Wire:
    """A wire of one kind to the database at `url`, closed with `closing`."""
    wire: Wire
    if kind == "supabase":
        wire = SupabaseWire(closing.enter_context(stand_in(url)).url, SECRET_KEY, key_variable="SUPABASE_SECRET_KEY")
    else:
        pooled = pooler().url_of(url) if kind == "pgbouncer" else url
        wire = PostgresWire(pooled)
    closing.callback(wire.close)
    return wire


def a_wire_by_proxy(kind: str, url: str, *, pooler: Callable[[], PgBouncer], closing: ExitStack) -> tuple[Wire, Proxy]:
    """The same through a proxy, after its first call."""
    wire: Wire
    if kind == "supabase":
        server = closing.enter_context(stand_in(url))
        between = closing.enter_context(proxy(("127.0.0.1", urlsplit(server.url).port or 0)))
        wire = SupabaseWire(f"http://127.0.0.1:{between.port}", SECRET_KEY, key_variable="SUPABASE_SECRET_KEY")
    else:
        place = conninfo_to_dict(pooler().url_of(url) if kind == "pgbouncer" else url)
        host = str(place["host"])
        target = Path(host) / ".s.PGSQL.5432" if host.startswith("/") else (host, int(str(place["port"])))
        between = closing.enter_context(proxy(target))
        wire = PostgresWire(make_conninfo(url, host="127.0.0.1", port=between.port, sslmode="disable"))
    closing.callback(wire.close)
    assert wire.call("wire_integer", value=1) == 1
    return wire, between
