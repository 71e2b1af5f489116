-- Functions that answer what they are given, or fail as they are told: what a wire carries is seen by them.

create function public.wire_json(p_value jsonb default '"default"') returns jsonb language sql volatile as 'select p_value';
create function public.wire_text(p_value text default 'default') returns text language sql volatile as 'select p_value';
create function public.wire_big(p_value bigint) returns bigint language sql volatile as 'select p_value';
create function public.wire_integer(p_value integer default 7) returns integer language sql volatile as 'select p_value';
create function public.wire_float(p_value double precision) returns double precision language sql volatile as 'select p_value';
create function public.wire_flag(p_value boolean) returns boolean language sql volatile as 'select p_value';
create function public.wire_time(p_value timestamptz) returns timestamptz language sql volatile as 'select p_value';
create function public.wire_texts(p_value text[]) returns text[] language sql volatile as 'select p_value';
create function public.wire_floats(p_value double precision[]) returns double precision[] language sql volatile as 'select p_value';
create function public.wire_setting(p_name text) returns text language sql volatile as 'select current_setting(p_name)';
create function public.wire_raw(p_value text) returns json language sql volatile as 'select p_value::json';
create function public.wire_void() returns void language sql volatile as 'select';
create function public.wire_list(p_count integer) returns jsonb language sql volatile
  as $$ select coalesce(jsonb_agg(jsonb_build_object('id', g, 'text', repeat('é', 100)) order by g), '[]') from generate_series(1, p_count) g $$;

create function public.wire_fail(p_state text, p_message text default 'no', p_detail text default '') returns void
language plpgsql volatile as $$
begin
  raise exception '%', p_message using errcode = p_state, detail = p_detail;
end $$;
create function public.wire_sleep(p_seconds double precision) returns void language sql volatile as 'select pg_sleep(p_seconds)';

-- How often a call was carried out.
create table public.wire_notes (id bigint generated always as identity primary key, name text);
create function public.wire_note(p_name text) returns bigint language sql volatile
  as 'insert into public.wire_notes (name) values (p_name) returning id';

create table public.giftcard_wire_names (name text not null constraint giftcard_wire_names_name_key unique);
revoke all on public.giftcard_wire_names from anon, authenticated;
create function public.wire_unique(p_name text) returns text language sql volatile
  as 'insert into public.giftcard_wire_names values (p_name) returning name';

-- Constraints of somebody else's tables, and one that an operator has added to a table of ours.
create table public.wire_audit (id integer primary key constraint short check (id < 100));
create table public.wire_notes_of_audit (id integer constraint known references public.wire_audit);
alter table public.giftcard_wire_names add constraint "no umlauts" check (name not like '%ü%');
insert into public.wire_audit values (1);
create function public.wire_violate(p_kind text) returns void language plpgsql volatile as $$
begin
  case p_kind
    when 'unique' then insert into public.wire_audit values (1);
    when 'check' then insert into public.wire_audit values (100);
    when 'not null' then insert into public.wire_audit values (null);
    when 'foreign key' then insert into public.wire_notes_of_audit values (2);
    else insert into public.giftcard_wire_names values ('ü');
  end case;
end $$;

-- What a stage may call as its job is settled.
create function public.wire_called(jsonb) returns bigint language sql volatile
  as 'insert into public.wire_notes (name) values ($1 ->> ''name'') returning id';
insert into public.giftcard_settle_functions (name) values ('wire_called'), ('wire_gone');
