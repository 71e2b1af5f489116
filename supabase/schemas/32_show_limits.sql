-- Show limits: each with what is in force, what runs, and what its rate has left.

-- Return a number of a JSON object that a tick brought, within bounds; null if it is none.
create function public.giftcard_limit_number(p_value jsonb, p_name text, p_most numeric) returns numeric
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_value -> p_name) = 'number'
              then least(greatest((p_value ->> p_name)::numeric, 0), p_most) end;
end $$;

-- Return the limits of the settings by stage, as the newest tick brought them: {"payment": {"runs": 2}}. A number
-- instead of the object is its runs.
create function public.giftcard_default_limits() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limits jsonb := (select limits from public.giftcard_ticks order by id desc limit 1);
begin
  if jsonb_typeof(v_limits) is distinct from 'object' then
    return '{}'::jsonb;
  end if;
  return (
    select coalesce(jsonb_object_agg(d.key, jsonb_build_object(
             'runs', public.giftcard_limit_number(d.value, 'runs', 10000),
             'per_second', public.giftcard_limit_number(d.value, 'per_second', 10000),
             'burst', public.giftcard_limit_number(d.value, 'burst', 100000))), '{}')
      from (select key, case jsonb_typeof(value) when 'number' then jsonb_build_object('runs', value) else value end
              from jsonb_each(v_limits) where char_length(key) <= 300 order by key limit 200) d(key, value));
end $$;

-- Return what is in force where a limit has no value of its own: of a stage the settings, of a concurrency key one run
-- at a time.
create function public.giftcard_default_of_limit(p_kind text, p_name text, p_defaults jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return jsonb_build_object('runs', null, 'per_second', null, 'burst', null) || coalesce(case p_kind
    when 'stage' then p_defaults -> p_name when 'key' then jsonb_build_object('runs', 1) end, '{}');
end $$;

-- Return a limit as the API shows it. l: its row, of nulls for a default; d: the default beneath.
create function public.giftcard_limit_json(
  p_kind text, p_name text, p_tenant_id text, l public.giftcard_limits, d jsonb, p_running bigint, p_now timestamptz)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ended boolean := coalesce(l.until <= p_now, false);
  v_own jsonb := jsonb_build_object('runs', l.runs, 'per_second', l.per_second, 'burst', l.burst);
  v_force jsonb := d;
  v_tokens double precision;
  r public.giftcard_rates;
begin
  if not v_ended and l.runs is not null then
    v_force := v_force || jsonb_build_object('runs', l.runs);
  end if;
  if not v_ended and l.per_second is not null then
    v_force := v_force || (v_own - 'runs');
  end if;
  if v_force ->> 'per_second' is not null then
    v_force := v_force || jsonb_build_object('burst', public.giftcard_burst(v_force)::integer);
    select * into r from public.giftcard_rates where key = public.giftcard_limit_key(p_kind, p_name, p_tenant_id);
    v_tokens := case when r.full_at = 'infinity' then 0 else public.giftcard_tokens(v_force, r, p_now) end;
  end if;
  return public.giftcard_limit_row_json(l) || v_own || jsonb_build_object(
    'kind', p_kind, 'name', p_name, 'tenant_id', nullif(p_tenant_id, ''),
    'state', case when l.kind is null then 'default' when v_ended then 'ended' else 'active' end,
    'default', d, 'in_force', v_force, 'running', p_running,
    'tokens', case when p_kind <> 'tenant' or p_tenant_id <> '*' then round(v_tokens::numeric, 3) end,
    'held_until', case when isfinite(r.held_until) and r.held_until > p_now then r.held_until end);
end $$;

-- Return the place after which a page of limits begins: kind, name (of a key its md5: a cursor is part of a URL, and a
-- key may be of a customer), tenant. GC400 for what no page gave.
create function public.giftcard_limit_cursor(p_older text) returns text[]
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_cursor text[];
begin
  v_cursor := array(select jsonb_array_elements_text(p_older::jsonb));
  if cardinality(v_cursor) <> 3 or array_position(v_cursor, null) is not null then
    perform public.giftcard_refuse('GC400', 'older is not a cursor that an earlier page gave', 'older');
  end if;
  return v_cursor;
exception when data_exception then
  perform public.giftcard_refuse('GC400', 'older is not a cursor that an earlier page gave', 'older');
  return null;
end $$;

-- Return a page of limits, by kind, name (of a key its md5) and tenant, and the settings' limits of stages that have
-- none of their own: {limits: [{kind, name, tenant_id, runs, per_second, burst, default, in_force, state, running,
-- tokens, held_until, until, set_by, reason, updated_at}], older: the cursor to continue from, null at the end}.
-- running: up to 10,000 are counted; of each tenant (*) the most that one of them has.
create function public.giftcard_list_limits(
  p_kind text default null, p_older text default null, p_limit integer default 50, p_now timestamptz default null)
returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_after text[] := case when p_older is not null then public.giftcard_limit_cursor(p_older) end;
  v_defaults jsonb := public.giftcard_default_limits();
  v_page jsonb;
  v_last jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  with running as materialized (
    select j.stage, j.circuit, j.tenant_id, j.concurrency_key, count(*) as runs from (
      select * from public.giftcard_jobs
       where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) > v_now limit 10000) j
     group by j.stage, j.circuit, j.tenant_id, j.concurrency_key), found as (
    (select l.kind, l.name, l.tenant_id, l, (case l.kind when 'key' then md5(l.name) else l.name end) as place
       from public.giftcard_limits l
      where (p_kind is null or l.kind = p_kind)
        and (v_after is null or (l.kind, (case l.kind when 'key' then md5(l.name) else l.name end), l.tenant_id)
                                > (v_after[1], v_after[2], v_after[3]))
      order by l.kind, (case l.kind when 'key' then md5(l.name) else l.name end), l.tenant_id limit v_limit + 1)
    union all
    select 'stage', d.name, '', null::public.giftcard_limits, d.name from jsonb_object_keys(v_defaults) d(name)
     where (p_kind is null or p_kind = 'stage')
       and (v_after is null or row('stage' collate "C", d.name collate "C", '' collate "C")
                               > row(v_after[1], v_after[2], v_after[3]))
       and not exists (select from public.giftcard_limits x where x.kind = 'stage' and x.name = d.name))
  select jsonb_agg(public.giftcard_limit_json(
      f.kind, f.name, f.tenant_id, f.l,
      public.giftcard_default_of_limit(f.kind, f.name, v_defaults),
      (select case when f.tenant_id = '*' then coalesce(max(t.runs), 0) else coalesce(sum(t.runs), 0) end from (
         select sum(r.runs)::bigint as runs from running r
          where case f.kind when 'stage' then r.stage = f.name when 'circuit' then r.circuit = f.name
                            when 'tenant' then r.stage = f.name and f.tenant_id in (r.tenant_id, '*')
                            else r.concurrency_key = f.name and r.tenant_id = f.tenant_id end
          group by r.tenant_id) t)::bigint, v_now) order by f.kind, f.place, f.tenant_id) into v_page
    from (select * from found n order by n.kind collate "C", n.place collate "C", n.tenant_id collate "C"
           limit v_limit + 1) f;
  v_page := coalesce(v_page, '[]');
  if jsonb_array_length(v_page) > v_limit then
    v_page := v_page - v_limit;
    v_last := v_page -> -1;
  end if;
  return jsonb_build_object('limits', v_page, 'older', case when v_last is not null then jsonb_build_array(
    v_last -> 'kind', case v_last ->> 'kind' when 'key' then md5(v_last ->> 'name') else v_last ->> 'name' end,
    coalesce(v_last ->> 'tenant_id', ''))::text end);
end $$;

-- Return the limits of runs that are in force, for metrics: [{kind, name, tenant, runs, running}], at most 200 of a
-- kind. Those of keys are as many as customers: none of them.
create function public.giftcard_limit_metrics(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'kind', m.l -> 'kind', 'name', left(m.l ->> 'name', 300), 'tenant', coalesce(m.l ->> 'tenant_id', ''),
        'runs', m.l -> 'in_force' -> 'runs', 'running', m.l -> 'running')), '[]')
      from unnest(array['stage', 'circuit', 'tenant']) k(kind)
     cross join lateral jsonb_array_elements(
       public.giftcard_list_limits(p_kind => k.kind, p_limit => 200, p_now => p_now) -> 'limits') m(l)
     where m.l ->> 'state' <> 'ended' and m.l -> 'in_force' ->> 'runs' is not null);
end $$;

-- Return what the doctor judges, of up to 1,000 limits of a kind: {stopped: those that let nothing start and never end,
-- stages: {the stage of a limit: the limit}}.
create function public.giftcard_limits_to_judge(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with judged as materialized (
      select l.* from unnest(array['stage', 'circuit', 'tenant', 'key']) k(kind)
       cross join lateral (select * from public.giftcard_limits c
                            where c.kind = k.kind and coalesce(c.until > p_now, true)
                            order by c.kind, c.name, c.tenant_id limit 1000) l)
    select jsonb_build_object(
      'stopped', (select coalesce(jsonb_agg(s.row), '[]') from (
          select jsonb_build_object(
                   'kind', kind, 'name', left(name, 300), 'tenant_id', nullif(left(tenant_id, 200), ''),
                   'by', left(set_by, 200), 'reason', left(reason, 500),
                   'age', public.giftcard_milliseconds(updated_at, p_now) / 1000.0) as row
            from judged where runs = 0 and until is null limit 20) s),
      'stages', (select coalesce(jsonb_object_agg(g.stage, g.key), '{}') from (
          select public.giftcard_stage_of(left(name, 300)) as stage,
                 min(public.giftcard_limit_key(kind, left(name, 300), left(tenant_id, 200))) as key
            from judged where kind <> 'key' group by 1 order by 1 limit 200) g)));
end $$;
