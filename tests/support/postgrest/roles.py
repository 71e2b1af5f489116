"""What Supabase makes in a database before anything of ours is there: roles, default grants, a watch on the schema."""

import psycopg

# The web roles get each new table, sequence and function by default: what our migrations take back.
# `service_role` has no time limit of its own, so that of the login holds: 8 s.
ROLES = """
do $$
begin
  if not exists (select from pg_roles where rolname = 'authenticator') then
    create role anon nologin noinherit;
    create role authenticated nologin noinherit;
    create role service_role nologin noinherit bypassrls;
    create role authenticator login noinherit;
    grant anon, authenticated, service_role to authenticator;
    alter role anon set statement_timeout = '3s';
    alter role authenticated set statement_timeout = '8s';
    alter role authenticator set statement_timeout = '8s';
    alter role authenticator set lock_timeout = '8s';
  end if;
end $$;
grant usage on schema public to anon, authenticated, service_role;
alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
alter default privileges in schema public grant all on functions to anon, authenticated, service_role;
"""

# Supabase's own event trigger: PostgREST reads the schema anew after each change of it.
WATCH = """
create schema if not exists extensions;
create or replace function extensions.pgrst_ddl_watch() returns event_trigger language plpgsql as $$
begin
  notify pgrst, 'reload schema';
end $$;
drop event trigger if exists pgrst_ddl_watch;
create event trigger pgrst_ddl_watch on ddl_command_end execute function extensions.pgrst_ddl_watch();
"""


def make_like_supabase(url: str) -> None:
    """Makes the roles (of the whole server, once) and the grants of this database. `url` is a superuser's."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROLES.encode())
        connection.execute(WATCH.encode())
