-- Tenants in turn: the part of a claim that goes to the tenants of a lane one after the other, whatever the length of
-- their queues.

-- Return how many jobs in a row a tenant gets where tenants take turns: 1 to 100.
create function public.giftcard_weight(s public.giftcard_claim_state, p_tenant_id text) returns integer
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when s.weights = '{}' then 1
              else least(100, greatest(1, coalesce((s.weights ->> p_tenant_id)::numeric::integer, 1))) end;
end $$;

-- Return whether a limit holds back all jobs of a tenant in a stage: one of 0, or one that is known to be used up.
create function public.giftcard_is_held_back(s public.giftcard_claim_state, p_stage text, p_tenant_id text)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return 'tenant ' || p_stage || ' ' || p_tenant_id = any (s.busy)
         or coalesce(public.giftcard_tenant_limit(s.limits, p_stage, p_tenant_id) ->> 'runs' = '0', false);
end $$;

-- Walk over the tenants with queued jobs in a lane, after p_after up to p_until (null: the last one), until p_most have
-- a turn: 75 at most. has_turn: one that has due jobs and is not held back by a limit; weight: jobs in a row.
create function public.giftcard_walk_tenants(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_after text, p_until text, p_most integer,
  p_now timestamptz)
returns table (tenant_id text, has_turn boolean, weight integer)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_stage text := public.giftcard_stage_of(p_circuit);
  v_limited boolean := public.giftcard_limits_tenants(s.limits, p_circuit);
begin
  return query with recursive walk as (
    (select f.tenant_id, 1 as seen, 0 as found,
            f.scheduled_at <= p_now
              and not (v_limited and public.giftcard_is_held_back(s, v_stage, f.tenant_id)) as has_turn
       from public.giftcard_jobs f
      where f.status = 'queued' and f.circuit = p_circuit and (-f.priority) = p_lane
        and f.tenant_id > p_after
      order by f.tenant_id, f.scheduled_at, f.id limit 1)
    union all
    select n.tenant_id, w.seen + 1, w.found + w.has_turn::integer, n.has_turn from walk w cross join lateral (
      select j.tenant_id,
             j.scheduled_at <= p_now
               and not (v_limited and public.giftcard_is_held_back(s, v_stage, j.tenant_id)) as has_turn
        from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id > w.tenant_id
       order by j.tenant_id, j.scheduled_at, j.id limit 1) n
     where w.found + w.has_turn::integer < p_most and w.seen < 75)
  select k.tenant_id, k.has_turn, public.giftcard_weight(s, k.tenant_id)
    from walk k where p_until is null or k.tenant_id <= p_until;
end $$;

-- Return the tenants that have a turn now, the next one first, 25 at most, and the weight of each. stopped_at: the last
-- one walked over, if there may be more behind it; empty: the walk has gone round.
create function public.giftcard_tenants_in_turn(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_last text, p_goes_on boolean, p_most integer,
  p_now timestamptz, out names text[], out weights integer[], out stopped_at text)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_more record;
  v_seen bigint;
begin
  -- The walk is over all tenants but the last one; where its turn goes on, it comes first.
  select coalesce(array_agg(w.tenant_id) filter (where w.has_turn), '{}'),
         coalesce(array_agg(w.weight) filter (where w.has_turn), '{}'), count(*), max(w.tenant_id)
    into names, weights, v_seen, stopped_at from (
    select p_last as tenant_id, true as has_turn, public.giftcard_weight(s, p_last) as weight where p_goes_on
    union all
    select * from public.giftcard_walk_tenants(s, p_circuit, p_lane, p_last, null, p_most, p_now)) w;
  if cardinality(names) >= p_most or v_seen >= 75 then
    return;
  end if;
  stopped_at := '';
  if p_last <> '' then
    select coalesce(array_agg(w.tenant_id) filter (where w.has_turn), '{}') as names,
           coalesce(array_agg(w.weight) filter (where w.has_turn), '{}') as weights, max(w.tenant_id) as stopped_at
      into v_more from public.giftcard_walk_tenants(
        s, p_circuit, p_lane, '', p_last, p_most - cardinality(names), p_now) w
     where not p_goes_on or w.tenant_id < p_last;
    names := names || v_more.names;
    weights := weights || v_more.weights;
    stopped_at := coalesce(v_more.stopped_at, '');
  end if;
end $$;

-- Pick up to p_wanted due jobs of a lane for the tenants whose turn it is, each its weight in a row, from where the
-- last claim of the circuit stopped. The row in giftcard_turns is a hint: a claim that holds it is not waited for.
create function public.giftcard_pick_by_tenant(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  t public.giftcard_turns;
  v_goes_on boolean;  -- the tenant of the last turn has not had its weight in a row
  v_picked bigint[];
  v_last text;
  v_taken integer;
  n record;           -- whose turn it is
begin
  select * into t from public.giftcard_turns where circuit = p_circuit;
  t.tenant_id := coalesce(t.tenant_id, '');
  v_goes_on := coalesce(t.taken < public.giftcard_weight(s, t.tenant_id), false)
               and not public.giftcard_is_held_back(s, public.giftcard_stage_of(p_circuit), t.tenant_id);
  n := public.giftcard_tenants_in_turn(s, p_circuit, p_lane, t.tenant_id, v_goes_on, least(p_wanted, 25), p_now);
  -- Locks a few more than it picks, where tenants have many turns: each as many as all turns may need.
  select coalesce(array_agg(x.id order by x.turn, x.place, x.nth), '{}'),
         (array_agg(x.name order by x.turn desc, x.place desc, x.nth desc))[1],
         (array_agg(x.nth order by x.turn desc, x.place desc, x.nth desc))[1]
    into v_picked, v_last, v_taken from (
    select r.id, r.name, r.place, (r.nth - 1) / r.weight as turn, (r.nth - 1) % r.weight + 1 as nth from (
      select g.id, u.name, u.weight, u.place,
             row_number() over (partition by u.place order by g.scheduled_at, g.id)::integer
               + case when v_goes_on and u.name = t.tenant_id then t.taken else 0 end as nth
        from unnest(n.names, n.weights) with ordinality u(name, weight, place) cross join lateral (
        select j.id, j.scheduled_at from public.giftcard_jobs j
         where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id = u.name
           and j.scheduled_at <= p_now and j.id <> all (s.ids) and j.id <> all (s.skipped)
           and (j.concurrency_key is null or 'key ' || j.tenant_id || ' ' || j.concurrency_key <> all (s.busy))
         order by j.scheduled_at, j.id
         limit u.weight * ((p_wanted - 1) / (select sum(a) from unnest(n.weights) a) + 1) for update skip locked) g) r
     order by turn, r.place, r.nth limit p_wanted) x;
  if cardinality(v_picked) < p_wanted then
    v_last := n.stopped_at;
    v_taken := 100;  -- its turn is over
  end if;
  perform public.giftcard_keep_turn(p_circuit, v_last, v_taken);
  return v_picked;
end $$;

-- Keep which tenant had the last turn of a circuit (empty: the next claim begins with the first), and how many of its
-- jobs started in a row; not if another claim holds the row.
create function public.giftcard_keep_turn(p_circuit text, p_tenant_id text, p_taken integer) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_turns set tenant_id = p_tenant_id, taken = p_taken
   where circuit = (select t.circuit from public.giftcard_turns t where t.circuit = p_circuit for update skip locked);
  if not found and not exists (select from public.giftcard_turns t where t.circuit = p_circuit)
     and pg_try_advisory_xact_lock(hashtextextended('turns of ' || p_circuit, 0)) then
    insert into public.giftcard_turns (circuit, tenant_id, taken) values (p_circuit, p_tenant_id, p_taken)
    on conflict do nothing;
  end if;
end $$;

