-- Why a job does not run.

-- Return in words what a limit of a job is of.
create function public.giftcard_limit_subject(j public.giftcard_jobs, p_kind text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case p_kind when 'stage' then 'stage ' || j.stage when 'circuit' then 'circuit ' || j.circuit
                     when 'tenant' then format('tenant %s in stage %s', j.tenant_id, j.stage)
                     else 'concurrency key ' || j.concurrency_key end;
end $$;

-- Return why a limit of runs holds a job back: {reason, text}; null: it does not. p_key: that of the limit.
create function public.giftcard_waiting_for_slot(
  j public.giftcard_jobs, p_kind text, p_key text, p_runs integer, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_what text := public.giftcard_limit_subject(j, p_kind);
begin
  if p_runs is null or p_runs > 0 and (case when p_kind = 'key' then (
       select count(*) from public.giftcard_jobs r
        where r.status = 'running' and r.concurrency_key is not null and r.tenant_id = j.tenant_id
          and r.concurrency_key = j.concurrency_key and r.lease_expires_at > p_now)
     else public.giftcard_running(p_key, null, p_now) end) < p_runs then
    return null;
  end if;
  return case p_kind when 'stage' then jsonb_build_object('reason', 'stage_full')
                     when 'circuit' then jsonb_build_object('reason', 'circuit_full')
                     when 'tenant' then jsonb_build_object('reason', 'tenant_full')
                     else jsonb_build_object('reason', 'key_busy') end || jsonb_build_object(
    'text', case when p_runs = 0 then format('%s starts nothing: its limit is 0 runs', v_what)
                 else format('%s has %s running, which is its limit', v_what, p_runs) end);
end $$;

-- Return why a limit holds a job back: {reason, until, by, text}; null: none does. until: of a rate, when the next may
-- start, else when the limit ends; by: who set it. p_defaults: the limits of the settings, as each tick records them.
create function public.giftcard_waiting_for_limit(j public.giftcard_jobs, p_defaults jsonb, p_now timestamptz)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limits jsonb := public.giftcard_effective_limits(coalesce(p_defaults, '{}'), p_now);
  v_why jsonb;
  v_until timestamptz;
  k record;
begin
  for k in
    select x.kind, y.key, y.its_limit
      from (values (1, 'stage', j.stage), (2, 'circuit', j.circuit), (3, 'tenant', j.stage),
                   (4, 'key', j.concurrency_key)) x(n, kind, name)
     cross join lateral (select public.giftcard_limit_key(x.kind, x.name, j.tenant_id) as key) l
     cross join lateral (select l.key, case x.kind
       when 'tenant' then public.giftcard_tenant_limit(v_limits, j.stage, j.tenant_id)
       when 'key' then '{"runs": 1}' || coalesce(v_limits -> l.key, '{}') else v_limits -> l.key end as its_limit) y
     where y.key is not null and y.its_limit is not null order by x.n
  loop
    v_why := public.giftcard_waiting_for_slot(j, k.kind, k.key, (k.its_limit ->> 'runs')::integer, p_now);
    if v_why is null and k.its_limit ? 'per_second' then
      v_until := (select public.giftcard_starts_at(k.its_limit, r, p_now) from public.giftcard_rates r
                   where r.key = k.key);
      if v_until > p_now then
        v_why := jsonb_build_object('reason', 'rate_limited', 'until', v_until, 'text', format(
          '%s may start %s a second: the next at %s', public.giftcard_limit_subject(j, k.kind),
          k.its_limit ->> 'per_second', public.giftcard_time_text(v_until)));
      end if;
    end if;
    exit when v_why is not null;
  end loop;
  return v_why || coalesce((
    select jsonb_strip_nulls(jsonb_build_object(
             'by', left(l.set_by, 400), 'until', case when not v_why ? 'until' then l.until end))
           || jsonb_build_object('text', left((v_why ->> 'text') || coalesce(' (' || nullif(concat_ws(
                '; ', 'set by ' || l.set_by || coalesce(': ' || l.reason, ''),
                'until ' || public.giftcard_time_text(l.until)), '') || ')', ''), 500))
      from public.giftcard_limits l
     where public.giftcard_limit_key(l.kind, l.name, l.tenant_id) in (k.key, 'tenant ' || j.stage || ' *')
       and l.kind = k.kind and (l.until is null or l.until > p_now)
     order by l.tenant_id desc limit 1), '{}');
end $$;

-- Return how many queued jobs of its circuit start before a job, at most 1,000: of higher priority, or older.
create function public.giftcard_ahead(j public.giftcard_jobs, p_now timestamptz) returns bigint
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (
    select count(*) from (
      select from public.giftcard_lanes(j.circuit) l(lane) cross join lateral (
        select from public.giftcard_jobs q
         where q.status = 'queued' and q.circuit = j.circuit and (-q.priority) = l.lane
           and (q.scheduled_at, q.id) < (case when l.lane < -j.priority then p_now else j.scheduled_at end, j.id)
         limit 1000) a
       where l.lane <= -j.priority limit 1000) c);
end $$;

-- Return why a due job of a stage that runs is not running: its circuit, the clock, a limit, or its turn.
create function public.giftcard_waiting_in_queue(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  c public.giftcard_circuits;
  v_ahead bigint;
  v_tick timestamptz;
  v_limits jsonb;
  v_limited jsonb;
begin
  select * into c from public.giftcard_circuits where circuit = j.circuit and state <> 'closed';
  if found and c.open_until > p_now then
    return jsonb_build_object('reason', 'circuit_open', 'until', c.open_until, 'text', format(
      'circuit %s is open until %s', j.circuit, public.giftcard_time_text(c.open_until)));
  elsif found then
    return jsonb_build_object('reason', 'circuit_half_open',
                              'text', format('circuit %s is half-open: one job at a time tries it', j.circuit));
  end if;
  select started_at, limits into v_tick, v_limits from public.giftcard_ticks order by id desc limit 1;
  if v_tick is null or v_tick < p_now - interval '3 minutes' then
    return jsonb_build_object(
      'reason', 'no_tick', 'until', null, 'since', v_tick, 'text', coalesce(
        'no tick since ' || public.giftcard_time_text(v_tick), 'no tick has ever run') || ': is the clock calling?');
  end if;
  v_limited := public.giftcard_waiting_for_limit(j, v_limits, p_now);
  if v_limited is not null then
    return v_limited;
  end if;
  v_ahead := public.giftcard_ahead(j, p_now);
  if v_ahead > 0 then
    return jsonb_build_object('reason', 'behind', 'ahead', v_ahead, 'text', format(
      'behind %s%s jobs of circuit %s that are older or of higher priority', v_ahead,
      case when v_ahead = 1000 then ' or more' end, j.circuit));
  end if;
  return jsonb_build_object('reason', 'next_tick', 'text', 'due: the next tick takes it');
end $$;

-- Return why a running job whose lease has ended is not settled, and when it is taken over: {reason, since, by, until,
-- text}; null for one whose lease holds. What parks its stage does not matter: it is settled as interrupted at once.
create function public.giftcard_waiting_for_take_over(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_paused_by text;
  v_skipped_until timestamptz;
  v_tick timestamptz;
  v_when text;
begin
  if j.lease_expires_at > p_now then
    return null;
  end if;
  select coalesce(left(paused_by, 400), '?') into v_paused_by from public.giftcard_stages
   where stage = '*' and paused_at is not null;
  select skip_until into v_skipped_until from public.giftcard_faulty_rows
   where kind = 'job' and row_id = j.id::text and skip_until > p_now and skip_until <= p_now + interval '1 hour';
  select started_at into v_tick from public.giftcard_ticks order by id desc limit 1;
  v_when := case
    when v_paused_by is not null then 'no tick takes it over while everything is paused by ' || v_paused_by
    when v_skipped_until is not null
      then format('ticks fail on it and pass over it until %s', public.giftcard_time_text(v_skipped_until))
    when v_tick is null then 'a tick takes it over once one comes: none has ever run'
    when v_tick < p_now - interval '3 minutes'
      then format('a tick takes it over once one comes: the last one was at %s', public.giftcard_time_text(v_tick))
    else 'the next tick takes it over, within a minute' end;
  return jsonb_build_object(
    'reason', 'killed', 'by', v_paused_by, 'until', v_skipped_until,
    'since', case when isfinite(j.lease_expires_at) then j.lease_expires_at end,
    'text', case when isfinite(j.lease_expires_at) then format(
      'its function was killed (lease ended %s); ', public.giftcard_time_text(j.lease_expires_at))
      else 'it runs without a lease; ' end || v_when);
end $$;

-- Return why a job is not running now, the first reason that holds: {reason, until, since, by, ahead, text}; null for
-- one that runs or has ended well. p_stages: what this code can run (null: unknown here); p_missing: {"email":
-- "SMTP_URL"}: stages that it knows and that lack a setting.
create function public.giftcard_waiting_for(
  j public.giftcard_jobs, p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_stages;
begin
  if j.status = 'error' then
    if j.revive_at is not null then
      return jsonb_build_object('reason', 'reviving', 'until', j.revive_at,
                                'text', 'a dead letter: it revives at ' || public.giftcard_time_text(j.revive_at));
    end if;
    return jsonb_build_object('reason', 'dead', 'text', 'dead for good: it waits for a person to requeue it');
  elsif j.status = 'running' then
    return public.giftcard_waiting_for_take_over(j, p_now);
  elsif j.status <> 'queued' then
    return null;
  end if;
  select * into s from public.giftcard_stages where stage = '*' and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'all_paused', 'by', left(s.paused_by, 500),
                              'text', left(concat('everything is paused by ', s.paused_by, ': ' || s.reason), 500));
  end if;
  select * into s from public.giftcard_stages where stage = j.stage and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'stage_paused', 'by', left(s.paused_by, 500), 'text', left(format(
      'stage %s is paused by %s%s', j.stage, s.paused_by, ': ' || s.reason), 500));
  elsif p_missing ? j.stage then
    return jsonb_build_object('reason', 'stage_not_configured', 'text', left(format(
      case when p_missing ->> j.stage ~ '^[A-Z][A-Z0-9_]*$' then 'stage %s lacks the setting %s'
           else 'stage %s cannot run: %s' end, j.stage, p_missing ->> j.stage), 500));
  elsif not coalesce(p_stages ? j.stage, true) then
    return jsonb_build_object('reason', 'stage_unknown', 'text', 'this code knows no stage ' || j.stage);
  elsif j.scheduled_at > p_now then
    return jsonb_build_object('reason', 'due_at', 'until', j.scheduled_at,
                              'text', 'due at ' || public.giftcard_time_text(j.scheduled_at));
  end if;
  return public.giftcard_waiting_in_queue(j, p_now);
end $$;
