-- Manage limits: set and remove them, and delete those that have ended.

-- Refuse what names no limit, with the field.
create function public.giftcard_check_limit_key(p_kind text, p_name text, p_tenant_id text) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_unsafe text := '[\x01-\x1f\x7f-\x9f\u2028\u2029]';
begin
  if p_kind is null or p_kind not in ('stage', 'circuit', 'tenant', 'key') then
    perform public.giftcard_refuse('GC400', 'kind must be stage, circuit, tenant or key', 'kind');
  elsif coalesce(p_name, '') = '' or char_length(p_name) > 300 or p_name ~ v_unsafe then
    perform public.giftcard_refuse(
      'GC400', 'name must be given: 1 to 300 characters, none of them a control character', 'name');
  elsif char_length(p_tenant_id) > 200 or p_tenant_id ~ v_unsafe then
    perform public.giftcard_refuse(
      'GC400', 'tenant_id has at most 200 characters, none of them a control character', 'tenant_id');
  elsif p_kind in ('stage', 'circuit') and p_tenant_id <> '' then
    perform public.giftcard_refuse(
      'GC400', format('a limit of a %s is for all tenants together: leave out tenant_id', p_kind), 'tenant_id');
  elsif p_kind = 'tenant' and p_tenant_id = '' then
    perform public.giftcard_refuse('GC400', 'tenant_id must be a tenant, or * for each tenant', 'tenant_id');
  elsif p_kind = 'key' and p_tenant_id in ('', '*') then
    perform public.giftcard_refuse('GC400', 'tenant_id must be the tenant whose jobs have this key', 'tenant_id');
  end if;
end $$;

-- Refuse values that no limit has, with the field.
create function public.giftcard_check_limit(
  p_runs integer, p_per_second double precision, p_burst integer, p_until timestamptz, p_for_seconds double precision,
  p_now timestamptz) returns void
language plpgsql stable security invoker set search_path = '' as $$
begin
  if p_runs is null and p_per_second is null then
    perform public.giftcard_refuse(
      'GC400', 'a limit needs runs, per_second or both: to go back to the default, remove it', 'runs');
  elsif not p_runs between 0 and 10000 then
    perform public.giftcard_refuse('GC400', 'runs must be from 0 (none starts) to 10,000', 'runs');
  elsif not p_per_second between 0.0001 and 10000 then
    perform public.giftcard_refuse('GC400', 'per_second must be from 0.0001 to 10,000', 'per_second');
  elsif not p_burst between 1 and 100000 then
    perform public.giftcard_refuse('GC400', 'burst must be from 1 to 100,000', 'burst');
  elsif p_burst is not null and p_per_second is null then
    perform public.giftcard_refuse('GC400', 'a burst is that of a rate: give per_second, too', 'burst');
  elsif p_until is not null and p_for_seconds is not null then
    perform public.giftcard_refuse('GC400', 'until and for_seconds exclude each other', 'for_seconds');
  elsif not isfinite(p_until) or p_until <= p_now then
    perform public.giftcard_refuse('GC400', 'until must be a time in the future', 'until');
  elsif not p_for_seconds between 1 and 366 * 86400 then
    perform public.giftcard_refuse('GC400', 'for_seconds must be from 1 to a year', 'for_seconds');
  end if;
end $$;

-- Return a limit as acts return it.
create function public.giftcard_limit_row_json(l public.giftcard_limits) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'kind', l.kind, 'name', l.name, 'tenant_id', nullif(l.tenant_id, ''), 'runs', l.runs, 'per_second', l.per_second,
    'burst', l.burst, 'until', case when isfinite(l.until) then l.until end, 'set_by', left(l.set_by, 500),
    'reason', left(l.reason, 500), 'updated_at', case when isfinite(l.updated_at) then l.updated_at end);
end $$;

-- Record in the audit that a limit was set or removed. It is kept for good, so a concurrency key that is a mail address
-- or a long number is masked, as in errors.
create function public.giftcard_record_limit(
  p_by text, p_action text, l public.giftcard_limits, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, nullif(nullif(l.tenant_id, '*'), ''), p_action,
    'limit ' || public.giftcard_limit_key(l.kind, case l.kind when 'key' then regexp_replace(regexp_replace(
      l.name, '[^\s"<>]+@[^\s"<>]+', '[email]', 'g'), '[0-9]{12,}', '[number]', 'g') else l.name end, l.tenant_id),
    p_details, p_now);
end $$;

-- Set a limit, in place of the one that has this kind, name and tenant; a value that is null is the default's.
-- p_tenant_id: of the kinds tenant and key. p_until, or p_for_seconds from now: when it ends by itself; null: never.
-- The same limit once more changes nothing. Return it.
create function public.giftcard_set_limit(
  p_kind text, p_name text, p_runs integer default null, p_per_second double precision default null,
  p_burst integer default null, p_tenant_id text default '', p_until timestamptz default null,
  p_for_seconds double precision default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := btrim(p_name);
  v_tenant_id text := btrim(coalesce(p_tenant_id, ''));
  v_was public.giftcard_limits;
  l public.giftcard_limits;
begin
  perform public.giftcard_check_limit_key(p_kind, v_name, v_tenant_id);
  perform public.giftcard_check_limit(p_runs, p_per_second, p_burst, p_until, p_for_seconds, v_now);
  select * into v_was from public.giftcard_limits
   where kind = p_kind and name = v_name and tenant_id = v_tenant_id for update;
  insert into public.giftcard_limits as x
    (kind, name, tenant_id, runs, per_second, burst, set_by, reason, until, updated_at)
  values (p_kind, v_name, v_tenant_id, p_runs, p_per_second, p_burst, public.giftcard_actor(p_by), p_reason,
          coalesce(p_until, v_now + make_interval(secs => p_for_seconds)), v_now)
  on conflict (kind, name, tenant_id) do update set
    runs = excluded.runs, per_second = excluded.per_second, burst = excluded.burst, set_by = excluded.set_by,
    reason = excluded.reason, until = excluded.until, updated_at = excluded.updated_at
   where (x.runs, x.per_second, x.burst, x.set_by, x.reason, x.until)
         is distinct from (excluded.runs, excluded.per_second, excluded.burst, excluded.set_by, excluded.reason,
                           excluded.until)
  returning * into l;
  if not found then
    return public.giftcard_limit_row_json(v_was);
  end if;
  perform public.giftcard_record_limit(p_by, 'set_limit', l, jsonb_build_object(
    'runs', l.runs, 'per_second', l.per_second, 'burst', l.burst, 'until', l.until, 'reason', p_reason,
    'was', case when v_was.kind is not null then jsonb_strip_nulls(jsonb_build_object(
             'runs', v_was.runs, 'per_second', v_was.per_second, 'burst', v_was.burst, 'until', v_was.until)) end),
    v_now);
  return public.giftcard_limit_row_json(l);
end $$;

-- Remove a limit: the default is in force again. p_reason: why, for the audit. Return what it was. GC404 for none.
create function public.giftcard_remove_limit(
  p_kind text, p_name text, p_tenant_id text default '', p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_name text := btrim(p_name);
  v_tenant_id text := btrim(coalesce(p_tenant_id, ''));
  l public.giftcard_limits;
begin
  perform public.giftcard_check_limit_key(p_kind, v_name, v_tenant_id);
  delete from public.giftcard_limits where kind = p_kind and name = v_name and tenant_id = v_tenant_id
  returning * into l;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'there is no limit %s: to change what the settings allow, set one',
      public.giftcard_limit_key(p_kind, v_name, v_tenant_id)), 'name');
  end if;
  perform public.giftcard_record_limit(p_by, 'remove_limit', l, jsonb_build_object(
    'runs', l.runs, 'per_second', l.per_second, 'burst', l.burst, 'until', l.until, 'reason', p_reason), p_now);
  return public.giftcard_limit_row_json(l);
end $$;

-- Delete up to p_limit rows of each kind that limits leave: limits that have ended; slots that are free, of circuits,
-- tenants and keys without a limit of their own; rates that have been whole for an hour. Rows that a claim holds are
-- left to the next call. Return whether that was all.
create function public.giftcard_prune_limits(p_limit integer, p_now timestamptz) returns boolean
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_limits bigint;
  v_keys text[];
  v_numbers integer[];
  v_rates bigint;
begin
  delete from public.giftcard_limits l using (
    select kind, name, tenant_id from public.giftcard_limits where until <= p_now
     order by kind, name, tenant_id limit p_limit for update skip locked) e
   where (l.kind, l.name, l.tenant_id) = (e.kind, e.name, e.tenant_id);
  get diagnostics v_limits = row_count;
  -- Locked first, and read again then: a statement sees only what claims had committed before it began.
  select array_agg(f.key), array_agg(f.n) into v_keys, v_numbers from (
    select s.key, s.n from public.giftcard_slots s
     where (s.key between 'circuit ' and 'circuit!' or s.key between 'key ' and 'key!'
            or s.key between 'tenant ' and 'tenant!')
       and not public.giftcard_is_taken(s, null, p_now)
       and s.key <> all (array(
         select public.giftcard_limit_key(kind, name, tenant_id) from public.giftcard_limits where kind <> 'stage'))
     order by s.key, s.n limit p_limit for update skip locked) f;
  delete from public.giftcard_slots s using unnest(v_keys, v_numbers) f(key, n)
   where s.key = f.key and s.n = f.n and not public.giftcard_is_taken(s, null, p_now);
  delete from public.giftcard_rates r using (
    select key from public.giftcard_rates
     where full_at <= p_now - interval '1 hour' and held_until <= p_now - interval '1 hour'
     order by key limit p_limit for update skip locked) e
   where r.key = e.key;
  get diagnostics v_rates = row_count;
  return greatest(v_limits, coalesce(cardinality(v_keys), 0), v_rates) < p_limit;
end $$;
