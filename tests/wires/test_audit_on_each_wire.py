"""The audit keeps which role connected, and that role adds rows and does nothing else to them."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lib.store.store import Store
from lib.store.supabase import SupabaseWire
from lib.store.wire import Wire
from tests.support.acts import KIM
from tests.support.factory import World


def test_an_act_has_the_role_that_connected(wire: Wire, world: World) -> None:
    Store(wire).pause("email", paused_by="kim", reason=None, caller=KIM)
    (act,) = Store(wire).list_audit(by="kim")["acts"]
    owner = world.ask("actor", by=None)
    assert act["role"] == ("authenticator" if isinstance(wire, SupabaseWire) else owner)


@pytest.mark.parametrize(
    "statement",
    [
        "update public.giftcard_audit set by = 'eve'",
        "delete from public.giftcard_audit",
        "truncate public.giftcard_audit",
        "insert into public.giftcard_audit (at, by, role, action, subject) values (now(), 'eve', 'postgres', 'a', 'b')",
        "alter table public.giftcard_audit disable trigger all",
    ],
)
def test_the_role_of_the_api_cannot_rewrite_the_audit(world: World, database_url: str, statement: str) -> None:
    with psycopg.connect(make_conninfo(database_url, user="authenticator")) as connection:
        service = World(connection, now=None, undo=True)
        service.run("set role service_role")
        service.ask("pause", stage="email", by="kim")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            service.run(statement)
    assert [row["by"] for row in world.rows("select by from public.giftcard_audit")] == ["kim"]
