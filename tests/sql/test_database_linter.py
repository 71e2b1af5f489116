"""The rules of Supabase's database linter (github.com/supabase/splinter, 0001 to 0029), on a migrated database.

The queries are our own, and most are stricter than the linter's: it looks only at what the web roles can reach.
`public` is the one schema of ours that it reads. Some rules have no test here:

    0005 unused_index               depends on what runs in a project; in a new one it names every index
    0008 rls_enabled_no_policy      found on each of our tables, on purpose: without a policy, row security refuses all
                                    that come without the service role, and `every table has row security and no
                                    policy` is a test of test_database_doors.py
    0012 anonymous sign-ins         reads the policies of a project that has Supabase Auth; the linter has dropped it
    0019 insecure_queue_exposed     about tables of pgmq, which a project makes itself
    0020 table_bloat                depends on what runs in a project
    0025 public_bucket_listing      about Supabase Storage, which we do not use
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.sql.test_privileges import open_functions, open_tables, unguarded_tables, unsafe_functions
from tests.support.factory import World


class Rule(NamedTuple):
    """`finds` names what breaks it. `broken_by` are statements that break it; they may change the table of GOOD."""

    finds: Callable[[World], list[str]]
    broken_by: str


def query(text: str) -> Callable[[World], list[str]]:
    return lambda world: [row["name"] for row in world.rows(text)]


def relations(condition: str) -> Callable[[World], list[str]]:
    """The relations of a migrated database on which the condition holds. `c` is the row of pg_class."""
    return query(f"select relname as name from pg_class c where relnamespace = 'public'::regnamespace and {condition}")


UNINDEXED_FOREIGN_KEYS = """
    select k.conname as name from pg_constraint k
     where k.contype = 'f' and k.connamespace = 'public'::regnamespace and not exists (
             select from pg_index i
              where i.indrelid = k.conrelid and i.indisvalid and i.indpred is null
                and ((i.indkey::smallint[])[0:cardinality(k.conkey) - 1] @> k.conkey
                     -- A unique index over some of the columns finds the one row as well.
                     or i.indisunique and k.conkey @> i.indkey::smallint[]))
"""

# A plain index beside a unique one is one of two, too.
DUPLICATE_INDEXES = """
    select string_agg(c.relname, ', ') as name
      from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'public'::regnamespace
     group by regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE (UNIQUE )?INDEX .+? ON ', '') having count(*) > 1
"""

VIEWS_ON_AUTH = """
    select distinct v.relname as name
      from pg_class v
      join pg_rewrite r on r.ev_class = v.oid
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      join pg_class t on t.oid = d.refobjid
     where v.relnamespace = 'public'::regnamespace and t.relnamespace = to_regnamespace('auth')
"""

FOREIGN_KEYS_TO_AUTH = """
    select k.conname as name from pg_constraint k join pg_class c on c.oid = k.confrelid
     where k.connamespace = 'public'::regnamespace and c.relnamespace = to_regnamespace('auth')
"""

# Those that pg_upgrade cannot carry over: an oid in them is another one afterwards.
REG_COLUMNS = """
    select c.relname || '.' || a.attname as name
      from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'public'::regnamespace and not a.attisdropped
       and format_type(a.atttypid, null) in ('regcollation', 'regconfig', 'regdictionary', 'regnamespace', 'regoper',
                                             'regoperator', 'regproc', 'regprocedure')
"""

OLD_EXTENSIONS = """
    select name from pg_available_extensions where installed_version <> default_version
"""

DEFINER_VIEW = """
    c.relkind = 'v' and not exists (
      select from pg_options_to_table(c.reloptions) where option_name = 'security_invoker' and option_value::boolean)
"""

# A column that was granted counts as much as a table.
READABLE = "c.relkind in ('r', 'v', 'm', 'f', 'p') and has_any_column_privilege('{}', c.oid, 'select')"

AUTH = "create schema auth; create table auth.users (id uuid primary key, email text unique);"

# Nothing is wrong with it, also where Supabase has granted it to its web roles when it was made.
GOOD = """
    create table public.good (id integer primary key, parent_id integer, secret text);
    alter table public.good enable row level security;
    revoke all on public.good from anon, authenticated;
"""

RULES = {
    "0001_unindexed_foreign_keys": Rule(
        query(UNINDEXED_FOREIGN_KEYS), "alter table public.good add foreign key (parent_id) references public.good"
    ),
    "0002_auth_users_exposed": Rule(
        query(VIEWS_ON_AUTH),
        f"{AUTH} create view public.bad with (security_invoker = true) as select email from auth.users",
    ),
    "0003_auth_rls_initplan": Rule(
        unguarded_tables, "create policy bad on public.good using (secret = current_setting('request.jwt.claims'))"
    ),
    "0004_no_primary_key": Rule(
        relations("c.relkind = 'r' and not exists (select from pg_index where indrelid = c.oid and indisprimary)"),
        "create table public.bad (id integer)",
    ),
    "0006_multiple_permissive_policies": Rule(
        unguarded_tables,
        "create policy bad on public.good using (id > 7); create policy worse on public.good using (id < 7)",
    ),
    "0007_policy_exists_rls_disabled": Rule(
        unguarded_tables,
        "create policy bad on public.good using (id > 7); alter table public.good disable row level security",
    ),
    "0009_duplicate_index": Rule(query(DUPLICATE_INDEXES), "create index bad on public.good (id)"),
    "0010_security_definer_view": Rule(relations(DEFINER_VIEW), "create view public.bad as select id from public.good"),
    "0011_function_search_path_mutable": Rule(
        unsafe_functions, "create function public.bad() returns integer language sql as 'select 1'"
    ),
    "0013_rls_disabled_in_public": Rule(unguarded_tables, "alter table public.good disable row level security"),
    "0014_extension_in_public": Rule(
        query("select extname as name from pg_extension where extnamespace = 'public'::regnamespace"),
        "create extension citext schema public",
    ),
    "0015_rls_references_user_metadata": Rule(
        unguarded_tables,
        "create policy bad on public.good"
        " using (current_setting('request.jwt.claims')::jsonb -> 'user_metadata' ->> 'id' = id::text)",
    ),
    "0016_materialized_view_in_api": Rule(
        relations("c.relkind = 'm'"), "create materialized view public.bad as select id from public.good"
    ),
    "0017_foreign_table_in_api": Rule(
        relations("c.relkind = 'f'"),
        "create foreign data wrapper bad; create server bad foreign data wrapper bad;"
        " create foreign table public.bad (id integer) server bad",
    ),
    "0018_unsupported_reg_types": Rule(query(REG_COLUMNS), "alter table public.good add column bad regprocedure"),
    "0021_fkey_to_auth_unique": Rule(
        query(FOREIGN_KEYS_TO_AUTH),
        f"{AUTH} alter table public.good add foreign key (secret) references auth.users (email)",
    ),
    "0022_extension_versions_outdated": Rule(
        query(OLD_EXTENSIONS), "create extension citext schema extensions version '1.4'"
    ),
    "0023_sensitive_columns_exposed": Rule(
        lambda world: open_tables(world, "anon") + open_tables(world, "authenticated"),
        "grant select on public.good to authenticated",
    ),
    "0024_rls_policy_always_true": Rule(
        unguarded_tables, "create policy bad on public.good for insert to anon with check (true)"
    ),
    "0026_pg_graphql_anon_table_exposed": Rule(
        relations(READABLE.format("anon")), "grant select (id) on public.good to anon"
    ),
    "0027_pg_graphql_authenticated_table_exposed": Rule(
        relations(READABLE.format("authenticated")), "grant select (id) on public.good to authenticated"
    ),
    "0028_anon_security_definer_function_executable": Rule(
        lambda world: open_functions(world, "anon"),
        "create function public.bad() returns integer language sql security definer set search_path = '' as 'select 1'",
    ),
    "0029_authenticated_security_definer_function_executable": Rule(
        lambda world: open_functions(world, "authenticated"),
        "create function public.bad() returns integer language sql security definer set search_path = '' as 'select 1';"
        " revoke all on function public.bad() from public, anon",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_database_keeps_the_rule(owner: World, rule: str) -> None:
    assert RULES[rule].finds(owner) == []


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_the_rule_is_found(owner: World, rule: str) -> None:
    owner.run(GOOD)
    assert RULES[rule].finds(owner) == []
    owner.run(RULES[rule].broken_by)
    assert RULES[rule].finds(owner)


def test_public_is_the_only_schema_of_ours(owner: World) -> None:
    """The two others are Supabase's."""
    schemas = "select nspname as name from pg_namespace where nspname !~ '^pg_|^information_schema$' order by 1"
    assert query(schemas)(owner) == ["extensions", "public", "supabase_migrations"]
