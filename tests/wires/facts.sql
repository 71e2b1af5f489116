-- Functions for `facts.py`: one for each way of being called or of answering.

create function public.add(a integer, b integer default 10) returns integer language sql immutable as 'select a + b';
create function public.over(a integer) returns text language sql as $$ select 'integer' $$;
create function public.over(b text) returns text language sql as $$ select 'text' $$;
create function public.twice(a integer) returns integer language sql as 'select a * 2';
create function public.twice(a text) returns text language sql as 'select a || a';
create function public.optional(a integer default 1, b integer default 2) returns integer[] language sql as 'select array[a, b]';
create function public.whole_json(json) returns json language sql as 'select $1';
create function public.whole_text(text) returns text language sql as 'select upper($1)';
create function public.many_of(variadic p text[]) returns integer language sql as 'select cardinality(p)';
create function public.echo(p jsonb) returns jsonb language sql as 'select p';
create function public.is_null(p text default 'default') returns boolean language sql as 'select p is null';
create function public.of_array(p text[]) returns text language sql as $$ select array_to_string(p, '|') $$;
create function public.of_big(p bigint) returns bigint language sql as 'select p';
create function public.of_float(p double precision) returns text language sql as 'select p::text';
create procedure public.a_procedure() language sql as 'select 1';
create function public.a_trigger() returns trigger language plpgsql as 'begin return new; end';

create function public.nothing() returns void language sql as 'select';
create function public.no_number() returns integer language sql as 'select null::integer';
create function public.numbers(n integer) returns setof integer language sql as 'select generate_series(1, n)';
create function public.pair(out x integer, out y text) language sql as $$ select 1, 'one' $$;
create function public.single_out(out x integer) language sql as 'select 7';
create function public.table_of(n integer) returns table (i integer, t text) language sql
  as $$ select g, 'row ' || g from generate_series(1, n) g $$;
create type public.composite as (a integer, b text);
create function public.a_composite() returns public.composite language sql as $$ select 1, 'x' $$;
create function public.no_composite() returns public.composite language sql as 'select null::public.composite';
create function public.a_list(n integer) returns jsonb language sql as 'select jsonb_agg(g) from generate_series(1, n) g';

create function public.fail(state text, message text default 'no', detail text default null, hint text default null) returns void
language plpgsql as $$
begin
  raise exception '%', message using errcode = state, detail = coalesce(detail, ''), hint = coalesce(hint, '');
end $$;
create function public.fail_plainly(state text, message text) returns void language plpgsql as $$
begin
  raise exception '%', message using errcode = state;
end $$;
create function public.set_reply(status text default null, headers text default null) returns integer language plpgsql as $$
begin
  perform set_config('response.status', coalesce(status, ''), true), set_config('response.headers', coalesce(headers, ''), true);
  return 1;
end $$;
create function public.setting(name text) returns text language sql volatile as 'select current_setting(name, true)';
create function public.read_only() returns text language sql stable as $$ select current_setting('transaction_read_only') $$;
create function public.isolated() returns text language sql volatile set default_transaction_isolation = 'serializable'
  as $$ select current_setting('transaction_isolation') $$;
create function public.sleep(seconds double precision) returns void language sql volatile set statement_timeout = '100ms'
  as 'select pg_sleep(seconds)';
create function public.who() returns text language sql volatile as 'select current_user::text';

create table public.things (id integer primary key, name text constraint things_name_is_short check (length(name) < 5));
create table public.parts (thing_id integer constraint parts_thing_fkey references public.things);
insert into public.things values (1, 'one');
create function public.add_thing(id integer, name text default 'x') returns integer language sql volatile
  as 'insert into public.things values (id, name) returning id';
create function public.add_things(ids integer[]) returns setof integer language sql volatile
  as $$ insert into public.things select unnest(ids), 'x' returning id $$;
create function public.add_part(thing_id integer) returns integer language sql volatile
  as 'insert into public.parts values (thing_id) returning thing_id';
create function public.add_thing_quietly(id integer) returns integer language sql stable as 'select public.add_thing(id)';
create function public.forbidden() returns integer language sql as 'select 1';
revoke all on function public.forbidden() from public, anon, authenticated, service_role;
