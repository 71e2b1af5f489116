-- Tenants in turn: the part of a claim that goes to the tenants of a lane one after the other, whatever the length of
-- their queues.

-- Walk over the tenants with queued jobs in a lane, from p_from on (p_with: itself too), until p_most have a turn: 75
-- at most. has_turn: one that has due jobs and is not held back by a limit; weight: jobs in a row.
create function public.giftcard_walk_tenants(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_from text, p_with boolean, p_most integer,
  p_now timestamptz)
returns table (tenant_id text, has_turn boolean, weight integer)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_key text := 'tenant ' || public.giftcard_stage_of(p_circuit) || ' ';
begin
  return query with recursive walk as (
    (select f.tenant_id, f.scheduled_at <= p_now and v_key || f.tenant_id <> all (s.busy) as has_turn, 1 as seen,
            0 as found
       from public.giftcard_jobs f
      where f.status = 'queued' and f.circuit = p_circuit and (-f.priority) = p_lane
        and f.tenant_id >= p_from and (p_with or f.tenant_id > p_from)
      order by f.tenant_id, f.scheduled_at, f.id limit 1)
    union all
    select n.tenant_id, n.has_turn, w.seen + 1, w.found + w.has_turn::integer from walk w cross join lateral (
      select j.tenant_id, j.scheduled_at <= p_now and v_key || j.tenant_id <> all (s.busy) as has_turn
        from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id > w.tenant_id
       order by j.tenant_id, j.scheduled_at, j.id limit 1) n
     where w.found + w.has_turn::integer < p_most and w.seen < 75)
  select k.tenant_id, k.has_turn,
         least(100, greatest(1, coalesce((s.weights ->> k.tenant_id)::numeric::integer, 1)))
    from walk k;
end $$;

-- Pick up to p_wanted due jobs of a lane for the tenants whose turn it is, each its weight in a row, from where the
-- last claim of the circuit stopped; at the end it begins anew. Four rounds at most, of 25 tenants each. The
-- row in giftcard_turns is a hint: a claim that holds it is not waited for.
create function public.giftcard_pick_by_tenant(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  t public.giftcard_turns;
  v_picked bigint[] := '{}'::bigint[];
  r record;
begin
  select * into t from public.giftcard_turns where circuit = p_circuit;
  for v_round in 1 .. 4 loop
    r := public.giftcard_pick_round(s, p_circuit, p_lane, p_wanted - cardinality(v_picked), coalesce(t.tenant_id, ''),
                                    coalesce(t.taken, 0), p_now);
    v_picked := v_picked || r.ids;
    t := row(p_circuit, r.last_tenant, r.taken);
    exit when cardinality(v_picked) = p_wanted or r.ids = '{}' and v_round > 1;
    s.ids := s.ids || r.ids;
  end loop;
  perform public.giftcard_keep_turn(p_circuit, t.tenant_id, t.taken);
  return v_picked;
end $$;

-- Pick one round, after p_last (empty: from the first on), which had p_taken jobs in a row. Where a few tenants want
-- many jobs, each has several turns at once in a round that begins with the first. last_tenant, taken: where the next
-- round continues.
create function public.giftcard_pick_round(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_last text, p_taken integer,
  p_now timestamptz, out ids bigint[], out last_tenant text, out taken integer)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_most integer := least(p_wanted, 25);
  v_goes_on boolean := p_taken < least(100, greatest(1, coalesce((s.weights ->> p_last)::numeric::integer, 1)));
  v_walked text[];
  v_names text[];
  v_weights integer[];
  v_times bigint;  -- turns at once
  v_tenants text[];
begin
  select array_agg(w.tenant_id), coalesce(array_agg(w.tenant_id) filter (where w.has_turn), '{}'),
         array_agg(w.weight) filter (where w.has_turn),
         case when p_last = '' then greatest(1, p_wanted / sum(w.weight) filter (where w.has_turn)) else 1 end
    into v_walked, v_names, v_weights, v_times
    from public.giftcard_walk_tenants(s, p_circuit, p_lane, p_last, v_goes_on, v_most, p_now) w;
  select coalesce(array_agg(x.id), '{}'), array_agg(x.name) into ids, v_tenants from (
    select g.id, n.name from unnest(v_names, v_weights) with ordinality n(name, weight, place) cross join lateral (
      select j.id from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id = n.name
         and j.scheduled_at <= p_now and j.id <> all (s.ids) and j.id <> all (s.skipped)
         and (j.concurrency_key is null or 'key ' || j.tenant_id || ' ' || j.concurrency_key <> all (s.busy))
       order by j.scheduled_at, j.id
       limit n.weight * v_times - case when n.name = p_last then p_taken else 0 end for update skip locked) g
     limit p_wanted) x;
  if cardinality(ids) = p_wanted then
    last_tenant := v_tenants[p_wanted];
    taken := (select count(*)::integer from unnest(v_tenants) u(name) where u.name = last_tenant)
             + case when last_tenant = p_last then p_taken else 0 end;
  else
    last_tenant := case when cardinality(v_names) >= v_most or cardinality(v_walked) >= 75
                        then v_walked[cardinality(v_walked)] else '' end;
    taken := 100;  -- its turn is over
  end if;
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

