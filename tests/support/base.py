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
            f"delete from public.{table}; insert into public.{table} ({columns}) overriding system value"
            f" select {columns} from base.{table};"
            for table, columns in tables(world).items()
        )
        + "reset session_replication_role;",
    )


def script(world: World, statements: str) -> None:
    """Several statements, in one transaction."""
    world.sql("select")  # opens the connection
    assert world._connection is not None
    world._connection.execute(statements.encode())


def tables(world: World) -> dict[str, str]:
    """All tables, each with its columns but those that Postgres generates."""
    rows = world.sql(
        "select relname::text as name, string_agg(quote_ident(attname), ', ' order by attnum) as columns"
        "  from pg_class c join pg_attribute a on attrelid = c.oid and attnum > 0 and not attisdropped"
        "  and attgenerated = ''"
        " where relnamespace = 'public'::regnamespace and relkind = 'r' and relname like 'giftcard%%'"
        " group by relname order by relname"
    )
    return {row["name"]: row["columns"] for row in rows}
