"""One database for many cases: a copy of its rows, which each case begins with."""

from tests.support.world import World


def keep(world: World) -> None:
    """Copies the rows of all tables, for `restore`."""
    script(world, "create schema base;" + "".join(f"create table base.{t} as table public.{t};" for t in tables(world)))


def restore(world: World) -> None:
    """Puts back the rows that were kept, past all triggers."""
    script(
        world,
        "set session_replication_role = replica;"
        + "".join(
            f"delete from public.{t}; insert into public.{t} overriding system value select * from base.{t};"
            for t in tables(world)
        )
        + "reset session_replication_role;",
    )


def script(world: World, statements: str) -> None:
    """Several statements, in one transaction."""
    world.sql("select")  # opens the connection
    assert world._connection is not None
    world._connection.execute(statements.encode())


def tables(world: World) -> list[str]:
    rows = world.sql(
        "select tablename as name from pg_tables where schemaname = 'public' and tablename like 'giftcard%%'"
    )
    return sorted({row["name"] for row in rows})
