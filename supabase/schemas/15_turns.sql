-- Turns: how a claim picks from a queue where more than the time of its jobs matters: priorities, tenants, concurrency
-- keys, limits.
--
-- The jobs that a tick starts of a circuit are numbered from the tick's id on. Of several lanes, the one with the
-- highest priority comes first; the last of ten numbers belongs to the lane below whose oldest job has waited for
-- longest, so that none starves. Where more jobs of a lane are due than are wanted, of several tenants, even numbers
-- belong to the tenants in turn, odd ones to the oldest jobs.

-- Return how many of the next p_count numbers of a circuit leave p_rest when divided by p_divisor.
create function public.giftcard_share(
  s public.giftcard_claim_state, p_circuit text, p_count integer, p_divisor integer, p_rest integer) returns integer
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_first bigint := s.tick_id + coalesce((s.served ->> p_circuit)::integer, 0);
begin
  return ((v_first + p_count + p_divisor - 1 - p_rest) / p_divisor
          - (v_first + p_divisor - 1 - p_rest) / p_divisor)::integer;
end $$;

-- Return whether tenants have to take turns in a lane: more jobs are due than are wanted, of more than one tenant.
create function public.giftcard_takes_turns(p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz)
returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select j.tenant_id from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
           order by j.tenant_id, j.scheduled_at, j.id limit 1)
      <> (select j.tenant_id from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
           order by j.tenant_id desc, j.scheduled_at desc, j.id desc limit 1)
     and exists (select from public.giftcard_jobs j
                  where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
                    and j.scheduled_at <= p_now
                  order by j.scheduled_at, j.id limit 1 offset p_wanted);
end $$;

-- Return whether limits by tenant hold in a stage.
create function public.giftcard_limits_tenants(p_limits jsonb, p_circuit text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return exists (
    select from jsonb_object_keys(p_limits) k
     where starts_with(k, 'tenant ' || public.giftcard_stage_of(p_circuit) || ' '));
end $$;

-- Return whether only the time of its jobs matters in a queue, as far as can be known before they are picked.
create function public.giftcard_is_plain(
  p_limits jsonb, q public.giftcard_cursor, p_wanted integer, p_only_job_id bigint, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return p_only_job_id is null and cardinality(q.lanes) = 1
         and (p_limits = '{}' or not public.giftcard_limits_tenants(p_limits, q.circuit))
         and not public.giftcard_takes_turns(q.circuit, q.lanes[1], p_wanted, p_now);
end $$;

-- Return the concurrency keys that let no more jobs start, as keys of limits.
create function public.giftcard_busy_keys(p_limits jsonb, p_now timestamptz) returns text[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return array(
    select 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key from public.giftcard_jobs j
     where j.status = 'running' and j.concurrency_key is not null and j.lease_expires_at > p_now
     group by j.tenant_id, j.concurrency_key
    having count(*) >= coalesce(
      (p_limits -> ('key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key) ->> 'runs')::integer, 1)
    union
    select e.key from jsonb_each(p_limits) e where e.key like 'key %' and e.value ->> 'runs' = '0'
    union
    -- Used up; a row of another clock is not: giftcard_lock_rate lets it begin anew.
    select r.key from public.giftcard_rates r
     where r.key = any (array(
       select e.key from jsonb_each(p_limits) e where e.key like 'key %' and e.value ? 'per_second'))
       and public.giftcard_starts_at(p_limits -> r.key, r, p_now) > p_now
       and r.full_at <= p_now + make_interval(secs => 1 + public.giftcard_burst(p_limits -> r.key)
                                                          / (p_limits -> r.key ->> 'per_second')::double precision));
end $$;

-- Pick up to p_wanted of the oldest due jobs of a lane, without p_ids.
create function public.giftcard_pick_oldest(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_ids bigint[], p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return array(
    select j.id from public.giftcard_jobs j
     where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.scheduled_at <= p_now
       and j.id <> all (s.ids) and j.id <> all (s.skipped) and j.id <> all (p_ids)
       and (j.concurrency_key is null
            or 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key <> all (s.busy))
     order by j.scheduled_at, j.id limit p_wanted for update skip locked);
end $$;

-- Pick up to p_wanted of the 1,000 oldest due jobs of a lane whose tenants and keys are not known to be held back: for
-- lanes with limits by tenant, where the walk over tenants has found too few. It passes many that have nothing due.
create function public.giftcard_pick_allowed(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  -- A variable: with a literal the planner may choose an index of queued rows for these few ids.
  v_queued constant text := 'queued';
  -- Twice as many as are wanted: another claim may hold some.
  v_ids bigint[] := array(
    select o.id from (
      select j.id, j.stage, j.tenant_id, j.concurrency_key from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.scheduled_at <= p_now
         and j.id <> all (s.ids) and j.id <> all (s.skipped)
       order by j.scheduled_at, j.id limit 1000) o
     where not public.giftcard_is_held_back(s, o.stage, o.tenant_id)
       and (o.concurrency_key is null
            or 'key ' || replace(o.tenant_id, ' ', '%20') || ' ' || o.concurrency_key <> all (s.busy))
     limit 2 * p_wanted);
begin
  v_ids := array(
    select j.id from public.giftcard_jobs j
     where j.id = any (v_ids) and j.status = v_queued and j.scheduled_at <= p_now
     order by array_position(v_ids, j.id) for update skip locked);
  return v_ids[1 : p_wanted];
end $$;

-- Pick up to p_wanted due jobs of one lane. p_ids: those that this claim has picked of the circuit already. p_in_turn:
-- whether tenants take turns; null: not known. With limits by tenant all are picked in turn: what one tenant may not
-- start now hides no job of another.
create function public.giftcard_pick_from_lane(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_ids bigint[], p_in_turn boolean,
  p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_by_tenant integer := 0;
  v_limited boolean := s.limits <> '{}' and public.giftcard_limits_tenants(s.limits, p_circuit);
  v_got bigint[] := '{}'::bigint[];
begin
  s.ids := s.ids || p_ids;
  if v_limited then
    v_by_tenant := p_wanted;
  elsif coalesce(p_in_turn, public.giftcard_takes_turns(p_circuit, p_lane, p_wanted, p_now)) then
    v_by_tenant := public.giftcard_share(s, p_circuit, p_wanted, 2, 0);
  end if;
  if v_by_tenant > 0 then
    v_got := public.giftcard_pick_by_tenant(s, p_circuit, p_lane, v_by_tenant, p_now);
  end if;
  if v_limited and cardinality(v_got) < p_wanted then
    s.ids := s.ids || v_got;
    v_got := v_got || public.giftcard_pick_allowed(s, p_circuit, p_lane, p_wanted - cardinality(v_got), p_now);
  elsif cardinality(v_got) < p_wanted then
    v_got := v_got || public.giftcard_pick_oldest(
      s, p_circuit, p_lane, p_wanted - cardinality(v_got), v_got, p_now);
  end if;
  return v_got;
end $$;

-- Pick up to p_wanted due jobs of a queue with lanes, from the highest priority on. If that leaves out a lane, the jobs
-- whose numbers belong to those below come last.
create function public.giftcard_pick_from_lanes(
  s public.giftcard_claim_state, q public.giftcard_cursor, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_got bigint[] := '{}'::bigint[];
  v_below smallint[] := q.lanes;
  v_share integer := public.giftcard_share(s, q.circuit, p_wanted, 10, 9);
  v_longest smallint;
  v_of_longest bigint[];
begin
  while cardinality(v_got) < p_wanted and cardinality(v_below) > 0 loop
    v_got := v_got || public.giftcard_pick_from_lane(
      s, q.circuit, v_below[1], p_wanted - cardinality(v_got), v_got, null, p_now);
    v_below := v_below[2:];
  end loop;
  if v_share = 0 or v_below = '{}' or cardinality(v_got) < p_wanted then
    return v_got;
  end if;
  select l.lane into v_longest from unnest(v_below) l(lane) cross join lateral (
    select j.scheduled_at from public.giftcard_jobs j
     where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) = l.lane
     order by j.scheduled_at, j.id limit 1) h
   order by h.scheduled_at, l.lane limit 1;
  v_of_longest := public.giftcard_pick_from_lane(s, q.circuit, v_longest, v_share, v_got, null, p_now);
  return v_got[1 : p_wanted - cardinality(v_of_longest)] || v_of_longest;
end $$;

-- Pick up to p_wanted due jobs of a queue where more than time matters: sets got and more.
create function public.giftcard_pick_carefully(
  s public.giftcard_claim_state, q public.giftcard_cursor, p_wanted integer, p_only_job_id bigint, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_picked bigint[];
  a record;  -- what the limits of tenants and keys admit
begin
  if s.busy is null then
    s.busy := case when s.limits = '{}' and not exists (
        select from public.giftcard_jobs where status = 'running' and concurrency_key is not null) then '{}'::text[]
      else public.giftcard_busy_keys(s.limits, p_now) end;
  end if;
  if p_only_job_id is not null then
    v_picked := array(select id from public.giftcard_jobs
                       where id = p_only_job_id and status = 'queued' and id <> all (s.ids) for update skip locked);
  elsif cardinality(q.lanes) = 1 then
    -- Without limits and busy keys the queue is here because its tenants take turns, as the scan has found.
    v_picked := public.giftcard_pick_from_lane(
      s, q.circuit, q.lanes[1], p_wanted, '{}', case when s.limits = '{}' and s.busy = '{}' then true end, p_now);
  else
    v_picked := public.giftcard_pick_from_lanes(s, q, p_wanted, p_now);
  end if;
  if s.limits = '{}' and s.busy = '{}' and not exists (
      select from public.giftcard_jobs where id = any (v_picked) and concurrency_key is not null) then
    s.got := v_picked;
    s.more := cardinality(v_picked) = p_wanted;
    return s;
  end if;
  a := public.giftcard_admit(s.limits, v_picked, s.claim_key, p_now);
  s.got := a.admitted;
  s.busy := s.busy || a.busy;
  -- Jobs of a key that turns out to be busy are passed over from now on; a hundred such keys are enough for one claim.
  s.more := p_only_job_id is null and cardinality(v_picked) = p_wanted
            and (s.got <> '{}' or a.busy <> '{}' and cardinality(s.busy) < 100);
  -- Nothing notifies of the end of a run, by which a key becomes free. One whose limit is 0 never does.
  s.limited_until := least(s.limited_until, a.until, case when exists (
    select from unnest(s.busy) b where starts_with(b, 'key ') and s.limits -> b ->> 'runs' is distinct from '0')
    then p_now + interval '1 second' end);
  return s;
end $$;
