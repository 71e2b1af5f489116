"""The schema: its generated migration, what a comparison of two catalogs sees, and what Python and SQL share."""

from typing import Any

import psycopg
import pytest

from dev import ROOT
from dev.migrate import migrate, read_migrations
from lib.errors import Refused
from lib.job import Job
from tests.support.factory import World
from tests.support.postgrest.roles import make_like_supabase

CATALOG = {
    "relations": """
        select c.relname, c.relkind::text, c.reloptions, c.relrowsecurity, c.relforcerowsecurity,
               c.relpersistence::text, c.relacl::text, obj_description(c.oid, 'pg_class') as comment
          from pg_class c where c.relnamespace = 'public'::regnamespace order by 1""",
    "columns": """
        select c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull,
               a.attidentity::text, a.attgenerated::text, a.attcollation::regcollation::text as collation,
               pg_get_expr(d.adbin, d.adrelid) as "default", a.attacl::text, a.attoptions, a.attstorage::text,
               col_description(c.oid, a.attnum) as comment
          from pg_attribute a
          join pg_class c on c.oid = a.attrelid
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'm') and a.attnum > 0
           and not a.attisdropped
         order by 1, 3""",
    "constraints": """
        select conrelid::regclass::text as relation, contypid::regtype::text as type, conname,
               pg_get_constraintdef(oid) as definition, convalidated, obj_description(oid, 'pg_constraint') as comment
          from pg_constraint where connamespace = 'public'::regnamespace order by 1, 2, 3""",
    "indexes": """
        select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition, i.indisvalid
          from pg_index i join pg_class c on c.oid = i.indexrelid
         where c.relnamespace = 'public'::regnamespace order by 1""",
    "sequences": """
        select s.seqrelid::regclass::text as name, s.seqtypid::regtype::text as type, s.seqstart, s.seqincrement,
               s.seqmax, s.seqmin, s.seqcache, s.seqcycle, d.refobjid::regclass::text as owner, d.refobjsubid
          from pg_sequence s left join pg_depend d on d.objid = s.seqrelid and d.refobjsubid > 0 order by 1""",
    "functions": """
        select p.oid::regprocedure::text as signature, pg_get_functiondef(p.oid) as definition, p.proacl::text,
               obj_description(p.oid, 'pg_proc') as comment
          from pg_proc p where p.pronamespace = 'public'::regnamespace order by 1""",
    "triggers": """
        select tgrelid::regclass::text as relation, tgname, pg_get_triggerdef(oid) as definition, tgenabled::text,
               obj_description(oid, 'pg_trigger') as comment
          from pg_trigger where not tgisinternal order by 1, 2""",
    "policies": "select * from pg_policies where schemaname = 'public'",
    "types": """
        select typname, typtype::text, format_type(typbasetype, typtypmod) as base, typnotnull, typdefault,
               typcollation::regcollation::text as collation, typacl::text, obj_description(oid, 'pg_type') as comment
          from pg_type where typnamespace = 'public'::regnamespace and typtype in ('e', 'd', 'r', 'm') order by 1""",
    "default grants": "select defaclobjtype::text, defaclacl::text from pg_default_acl order by 1",
}


def catalog(url: str) -> dict[str, list[dict[str, Any]]]:
    with psycopg.connect(url) as connection:
        world = World(connection)
        return {name: world.rows(query) for name, query in CATALOG.items()}


def test_the_initial_migration_is_the_schemas_in_order() -> None:
    """`make initial-migration` writes it. Once a release is tagged, a change is a migration of its own."""
    schemas = sorted((ROOT / "supabase/schemas").glob("*.sql"))
    (initial,) = (ROOT / "supabase/migrations").glob("*_initial.sql")
    assert initial.read_bytes() == b"".join(path.read_bytes() for path in schemas)


@pytest.mark.slow
def test_every_kind_of_difference_would_be_seen(empty_database_url: str) -> None:
    """Each of these statements shows in its part of the catalog (and perhaps in another)."""
    make_like_supabase(empty_database_url)
    migrate(empty_database_url)
    before = catalog(empty_database_url)
    for what, statement in DIFFERENCES:
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            connection.execute(statement.encode())
        after = catalog(empty_database_url)
        assert what in [name for name in CATALOG if before[name] != after[name]], statement
        before = after


DIFFERENCES = [
    ("columns", "alter table giftcard_audit alter column subject drop not null"),
    ("columns", "alter table giftcard_audit alter column details set default '[]'"),
    ("columns", "comment on column giftcard_audit.subject is 'another'"),
    ("columns", "grant select (subject) on giftcard_audit to anon"),
    ("relations", "grant select on giftcard_audit to anon"),
    ("relations", "comment on table giftcard_audit is 'another'"),
    ("relations", "alter table giftcard_audit disable row level security"),
    ("relations", "grant usage on sequence giftcard_ticks_id_seq to anon"),
    ("constraints", "alter table giftcard_audit drop constraint giftcard_audit_action_is_a_name"),
    ("constraints", "comment on constraint giftcard_orders_amount_is_positive on giftcard_orders is 'another'"),
    ("constraints", "alter domain giftcard_ttr drop constraint giftcard_jobs_ttr_is_positive"),
    ("functions", "grant execute on function giftcard_status to anon"),
    ("functions", "comment on function giftcard_status is 'another'"),
    ("functions", "alter function giftcard_status stable security definer"),
    ("triggers", "alter table giftcard_jobs disable trigger giftcard_jobs_fill_circuit"),
    ("policies", "create policy another on giftcard_audit for select using (true)"),
    ("sequences", "alter sequence giftcard_ticks_id_seq cache 7"),
    ("types", "comment on domain giftcard_ttr is 'another'"),
    ("default grants", "alter default privileges in schema public revoke all on tables from anon"),
]


def test_what_a_claim_brings_is_what_python_knows_of_a_job(world: World) -> None:
    columns = set(world.job(world.enqueue())) | {"payload_json", "context_json", "ttr", "interrupted"}
    assert set(Job.__dataclass_fields__) <= columns


# A table of the same name that is not ours


def test_a_foreign_table_of_our_name_is_refused_with_a_hint_and_nothing_is_changed(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table public.giftcard_jobs (id int primary key, state text)")
        connection.execute("insert into public.giftcard_jobs values (1, 'mine')")
    before = catalog(empty_database_url)
    with pytest.raises(Refused) as caught:
        migrate(empty_database_url)
    assert caught.value.sqlstate == "GC409"
    assert "is not ours: nothing was changed" in str(caught.value)
    assert "RENAME TO giftcard_jobs_old" in str(caught.value)
    assert catalog(empty_database_url) == before
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select * from public.giftcard_jobs").fetchall() == [(1, "mine")]
        applied = connection.execute("select count(*) from supabase_migrations.schema_migrations").fetchone()
    assert applied == (0,)


def test_doing_what_the_hint_says_lets_the_migration_through(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table public.giftcard_jobs (id int, flow text, stage text, payload jsonb)")
        connection.execute("insert into public.giftcard_jobs values (1, 'order-7', 'email', '{}')")
        connection.execute("alter table public.giftcard_jobs rename to giftcard_jobs_old")
        assert len(migrate(empty_database_url)) == len(read_migrations(ROOT / "supabase/migrations"))
        world = World(connection)
        copy = "insert into giftcard_jobs (correlation_id, stage, payload)"
        world.run(f"{copy} select flow, stage, payload from giftcard_jobs_old")
        assert [job.correlation_id for job in world.claim()] == ["order-7"]


def test_a_migration_runs_where_others_have_tables_of_their_own(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table public.orders (id int)")
        connection.execute("create function public.refuse() returns int language sql as 'select 1'")
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        world = World(connection)
        (table,) = world.rows("select relrowsecurity from pg_class where relname = 'orders'")
    assert not table["relrowsecurity"]
