-- Reservations: what limits leave to a claim. Everything is locked with SKIP LOCKED: what another claim decides about
-- now counts as taken, and none waits for another. The planner's settings are those of giftcard_claim_for: setting them
-- in each function again costs more than what most of these do.

-- Add the slots of a key that are missing, unless another claim adds them now. The first ones get the runs that began
-- without this limit, of which there may be more than it allows.
create function public.giftcard_add_slots(p_key text, p_runs integer, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('slots of ' || p_key, 0)) then
    return;
  elsif not exists (select from public.giftcard_slots where key = p_key) then
    insert into public.giftcard_slots (key, n, job_id, lease_id)
    select p_key, row_number() over (), j.id, j.lease_id from public.giftcard_jobs j
     where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) > p_now
       and p_key in ('stage ' || j.stage, 'circuit ' || j.circuit, 'tenant ' || j.stage || ' ' || j.tenant_id,
                     'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key)
    on conflict do nothing;
  end if;
  insert into public.giftcard_slots (key, n) select p_key, n from generate_series(1, p_runs) n on conflict do nothing;
end $$;

-- Lock up to p_want free slots of a key, and return their numbers. The rows are locked first and read again then: a
-- statement sees only what was committed before it began. Where the limit was lowered, runs in higher slots count too.
create function public.giftcard_lock_slots(
  p_key text, p_runs integer, p_want integer, p_claim_key uuid, p_now timestamptz) returns integer[]
language plpgsql volatile security invoker
set search_path = '' as $$
declare
  v_above bigint := 0::bigint;
  v_slots integer[];
  v_running constant text := 'running';  -- a variable, as in giftcard_is_taken, which is inline here
begin
  if p_runs > 0 and not exists (select from public.giftcard_slots where key = p_key and n = p_runs) then
    perform public.giftcard_add_slots(p_key, p_runs, p_now);
  end if;
  if exists (select from public.giftcard_slots where key = p_key and n > p_runs) then
    v_above := (select count(*) from public.giftcard_slots s
                 where s.key = p_key and s.n > p_runs and public.giftcard_is_taken(s, p_claim_key, p_now));
  end if;
  v_slots := array(
    select s.n from public.giftcard_slots s
     where s.key = p_key and s.n between 1 and p_runs and s.lease_id is distinct from p_claim_key
       and (select true from public.giftcard_jobs j
             where j.id = s.job_id and j.status = v_running and j.lease_id is not distinct from s.lease_id
               and j.lease_expires_at > p_now limit 1) is null
     order by s.n limit p_want + v_above for update skip locked);
  v_slots := array(
    select s.n from public.giftcard_slots s
     where s.key = p_key and s.n = any (v_slots) and s.lease_id is distinct from p_claim_key
       and (select true from public.giftcard_jobs j
             where j.id = s.job_id and j.status = v_running and j.lease_id is not distinct from s.lease_id
               and j.lease_expires_at > p_now limit 1) is null
     order by s.n);
  return v_slots[1 : greatest(0, least(p_want, cardinality(v_slots) - v_above))::integer];
end $$;

-- Lock the row of a key's rate, unless another claim holds it, and return it. A row that lets nothing start for longer
-- than its burst takes is of another clock or another limit: it begins anew, with nothing to start.
create function public.giftcard_lock_rate(p_key text, p_limit jsonb, p_now timestamptz)
returns public.giftcard_rates
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r public.giftcard_rates;
  v_empty timestamptz := p_now + make_interval(
    secs => public.giftcard_burst(p_limit) / (p_limit ->> 'per_second')::double precision);
begin
  if not exists (select from public.giftcard_rates where key = p_key)
     and pg_try_advisory_xact_lock(hashtextextended('rate of ' || p_key, 0)) then
    insert into public.giftcard_rates (key) values (p_key) on conflict do nothing;
  end if;
  select * into r from public.giftcard_rates where key = p_key for update skip locked;
  if r.full_at > v_empty + interval '1 second' then
    update public.giftcard_rates set full_at = v_empty where key = p_key returning * into r;
  end if;
  return r;
end $$;

-- Reserve up to p_want starts under the limit of one key. allowed: how many; slots: theirs; until: when more may start,
-- if fewer are allowed. A rate lets a claim wait for a second's worth: who comes for each single start comes too often.
create function public.giftcard_reserve(
  p_key text, p_limit jsonb, p_want integer, p_claim_key uuid, p_now timestamptz,
  out allowed integer, out slots integer[], out until timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r public.giftcard_rates;
  v_tokens double precision;
  v_worth double precision;  -- of a second
begin
  allowed := p_want;
  if p_limit ? 'runs' then
    slots := public.giftcard_lock_slots(p_key, (p_limit ->> 'runs')::integer, p_want, p_claim_key, p_now);
    allowed := cardinality(slots);
    -- Nothing notifies of a free slot. A limit of 0 has none to wait for.
    until := case when allowed < p_want and p_limit ->> 'runs' <> '0' then p_now + interval '1 second' end;
  end if;
  if not p_limit ? 'per_second' or allowed = 0 then
    return;
  end if;
  r := public.giftcard_lock_rate(p_key, p_limit, p_now);
  v_tokens := public.giftcard_tokens(p_limit, r, p_now);
  if r.key is null then
    allowed := 0;  -- another claim reserves now
    until := p_now + interval '50 milliseconds';
  elsif r.held_until > p_now then
    allowed := 0;
    until := r.held_until;
  elsif allowed > floor(v_tokens) then
    allowed := floor(v_tokens)::integer;
    v_worth := least(public.giftcard_burst(p_limit), greatest(1, floor((p_limit ->> 'per_second')::double precision)));
    until := p_now + make_interval(
      secs => greatest(0.05, (v_worth - v_tokens + allowed) / (p_limit ->> 'per_second')::double precision));
  end if;
end $$;

-- Take what was reserved under one key, for the jobs p_ids. The caller holds the rows.
create function public.giftcard_take(
  p_key text, p_limit jsonb, p_slots integer[], p_ids bigint[], p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if cardinality(p_ids) = 0 then
    return;
  end if;
  if p_limit ? 'runs' then
    update public.giftcard_slots set job_id = p_ids[array_position(p_slots, n)], lease_id = p_claim_key
     where key = p_key and n = any (p_slots[1 : cardinality(p_ids)]);
  end if;
  if p_limit ? 'per_second' then
    update public.giftcard_rates
       set full_at = greatest(p_now, p_now + make_interval(
             secs => (public.giftcard_burst(p_limit) + 1e-6 + cardinality(p_ids)
                      - public.giftcard_tokens(p_limit, giftcard_rates, p_now))
                     / (p_limit ->> 'per_second')::double precision))
     where key = p_key;
  end if;
end $$;

-- Reserve up to p_want starts of a circuit, under the limits of its stage and its own. p_same: the circuits of the
-- stage that have their turn now, itself too: they share what the stage's limit leaves. reserved: slots by key.
create function public.giftcard_reserve_starts(
  p_limits jsonb, p_circuit text, p_want integer, p_same integer, p_claim_key uuid, p_now timestamptz,
  out allowed integer, out reserved jsonb, out until timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_key text;
  r record;
begin
  allowed := p_want;
  reserved := '{}';
  foreach v_key in array array['stage ' || public.giftcard_stage_of(p_circuit), 'circuit ' || p_circuit] loop
    if p_limits ? v_key and allowed > 0 then
      r := public.giftcard_reserve(v_key, p_limits -> v_key, allowed, p_claim_key, p_now);
      allowed := case when starts_with(v_key, 'stage ') and r.allowed < p_want then (r.allowed + p_same - 1) / p_same
                      else r.allowed end;
      -- Where nothing may start until a limit changes, there is nothing to wait for.
      until := case when r.allowed = 0 and r.until is null then null else greatest(until, r.until) end;
      reserved := reserved || jsonb_build_object(v_key, coalesce(r.slots, '{}'));
    end if;
  end loop;
end $$;

-- Take what giftcard_reserve_starts has reserved, for the jobs p_ids.
create function public.giftcard_take_starts(
  p_limits jsonb, p_reserved jsonb, p_ids bigint[], p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_take(
      e.key, p_limits -> e.key, array(select jsonb_array_elements_text(e.value)::integer), p_ids, p_claim_key, p_now)
    from jsonb_each(p_reserved) e;
end $$;

-- Hold the rates of circuits whose other side asked for it (Retry-After): p_results with `hold`, in seconds, of jobs
-- that were settled. A circuit that is its stage's holds the rate of the stage. Where there is no rate, only the job
-- waits.
create function public.giftcard_hold_rates(p_results jsonb, p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  h record;
begin
  for h in
    select r.key, max(least((x.r ->> 'hold')::double precision, 86400)) as seconds
      from jsonb_array_elements(p_results) x(r)
      join public.giftcard_jobs j on j.id = (x.r ->> 'id')::bigint
      join public.giftcard_rates r
        on r.key in ('circuit ' || j.circuit, case when j.circuit = j.stage then 'stage ' || j.stage end)
     where j.id = any (p_ids) and (x.r ->> 'hold')::double precision > 0
     group by r.key order by r.key
  loop
    update public.giftcard_rates set held_until = greatest(held_until, p_now + make_interval(secs => h.seconds))
     where key = h.key;
  end loop;
end $$;
