-- Settle calls: a stage's own rows commit with the settle of its job, Complete(then=Call("shop_mark_paid", {…})).
-- Locks: the job's row, what the function locks, the tick's row, then as in giftcard_settle.

create table public.giftcard_settle_functions (
  name text collate "C" not null,
  added_at timestamptz not null default now(),
  constraint giftcard_settle_functions_pkey primary key (name),
  constraint giftcard_settle_functions_name_is_a_name check (
    name ~ '^([a-z_][a-z0-9_]{0,62}[.])?[a-z_][a-z0-9_]{0,62}$' and name !~ '^((public[.])?giftcard_|pg_)')
);

comment on table public.giftcard_settle_functions is
  'The functions that a stage may call as its job is settled. The owner of the database fills it; the service role '
  'only reads it.';
comment on column public.giftcard_settle_functions.name is
  'As the stage names it: shop_mark_paid (of schema public) or shop.mark_paid. It takes one argument, a jsonb.';

-- Return the function of the list with this name, null if there is none in the database.
create function public.giftcard_settle_function(p_name text) returns oid
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_parts constant text[] := string_to_array(case when p_name like '%.%' then '' else 'public.' end || p_name, '.');
begin
  return (select p.oid from pg_catalog.pg_proc p
           where p.oid = to_regprocedure(format('%I.%I(jsonb)', v_parts[1], v_parts[2])) and p.prokind = 'f');
end $$;

-- Call a function of the list with its arguments; what it returns is dropped. It runs with the rights of the caller,
-- and leaves the transaction's role as it is: another one would settle the job.
create function public.giftcard_call_function(p_name text, p_arguments jsonb) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_role constant name := current_user;
  v_schema name;
  v_function name;
begin
  if not exists (select from public.giftcard_settle_functions where name = p_name) then
    perform public.giftcard_refuse('GC404', 'the table giftcard_settle_functions does not have it', 'then');
  end if;
  -- The catalog's own names: the text of a result is never part of a statement.
  select n.nspname, p.proname into v_schema, v_function
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
   where p.oid = public.giftcard_settle_function(p_name);
  if not found then
    perform public.giftcard_refuse('GC404', 'the database has no function of this name with one argument, a jsonb',
                                   'then');
  end if;
  execute format('select %I.%I($1)', v_schema, v_function) using p_arguments;
  set constraints all immediate;  -- an error at the commit would be no function's
  if current_user <> v_role then
    raise exception 'it leaves the role % set', current_user using errcode = 'GC409';  -- which may call nothing of ours
  end if;
end $$;

-- Lock a job's row, if it runs under this lease. Return the place of its version, which each change moves; null if
-- it does not.
create function public.giftcard_lock_lease(p_job_id bigint, p_lease_id uuid) returns tid
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_place tid;
begin
  select ctid into v_place from public.giftcard_jobs
   where id = p_job_id and status = 'running' and lease_id = p_lease_id for update;
  return v_place;
end $$;

-- Settle one result that is complete and has a call, {…, then: {function, arguments}}: the function is called once,
-- and only by the run that settles its job. Return what giftcard_settle returns. If the call fails, nothing was
-- changed, and settled is called_off: `kind` refused (the job's fault), timeout, or unavailable (the database's, or
-- another transaction's); with sqlstate and error.
create function public.giftcard_settle_with_call(
  p_tick_id bigint, p_result jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null)
returns json
language plpgsql volatile security invoker
-- A time-out that is changed within a statement is not armed. PostgREST reads this one and sets it before the call;
-- on other wires the client does.
set search_path = '' set statement_timeout = '2s' set lock_timeout = '1s' as $$
declare
  v_results constant jsonb := jsonb_build_array(p_result - 'then');
  v_returned boolean := false;
  v_place tid;
  s record;
begin
  v_place := public.giftcard_lock_lease((p_result ->> 'id')::bigint, (p_result ->> 'lease_id')::uuid);
  if v_place is null then
    -- Settled by an earlier try, or the job is another run's.
    s := public.giftcard_settle(v_results, p_cooldown_seconds, p_now, true);
    return json_build_object('settled', s.settled, 'opened', s.opened, 'closed', s.closed);
  end if;
  perform public.giftcard_call_function(p_result -> 'then' ->> 'function', p_result -> 'then' -> 'arguments');
  -- Also what leaves it running: a settle of the function's own would leave out the next jobs.
  if public.giftcard_lock_lease((p_result ->> 'id')::bigint, (p_result ->> 'lease_id')::uuid)
     is distinct from v_place then
    perform public.giftcard_refuse('GC409', 'it changes the row of the job that calls it', 'then');
  end if;
  v_returned := true;
  -- Before the settle: giftcard_step holds the tick's row when it locks batches and circuits.
  perform public.giftcard_count_in_tick(p_tick_id, '{"completed": 1, "lease_lost": 0}');
  s := public.giftcard_settle(v_results, p_cooldown_seconds, p_now, true);
  if s.settled -> 0 ->> 'settled' is distinct from 'settled' then
    v_returned := false;
    perform public.giftcard_refuse('GC409', 'the row of its job does not change', 'then');
  end if;
  return json_build_object('settled', s.settled, 'opened', s.opened, 'closed', s.closed);
-- The first two are not among the others. A time-out that was caught is not armed again: this ends at once.
exception when query_canceled or assert_failure or others then
  if v_returned and sqlstate <> '57014' then
    raise;
  end if;
  return json_build_object('opened', '{}'::text[], 'closed', '{}'::text[], 'settled', json_build_array(
    json_build_object(
      'id', (p_result ->> 'id')::bigint, 'settled', 'called_off', 'status', 'running', 'next_run_at', null,
      'kind', case when sqlstate = '57014' then 'timeout'
                   when public.giftcard_is_unavailable(sqlstate) then 'unavailable' else 'refused' end,
      'sqlstate', sqlstate, 'error', public.giftcard_error_text(sqlstate, sqlerrm))));
end $$;

-- Return which functions of the list cannot be called by the role that asks: [{name, problem: missing | denied}]; null
-- for an empty list.
create function public.giftcard_unusable_settle_functions() returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (
    select jsonb_path_query_array(
             jsonb_agg(jsonb_build_object('name', l.name, 'problem', l.problem) order by l.name),
             '$[*] ? (@.problem != null)')
      from (select f.name, case when p.oid is null then 'missing'
                                when not has_schema_privilege(p.pronamespace, 'usage')
                                     or not has_function_privilege(p.oid, 'execute') then 'denied' end as problem
              from (select name from public.giftcard_settle_functions order by name limit 200) f
              left join pg_catalog.pg_proc p on p.oid = public.giftcard_settle_function(f.name)) l);
end $$;
