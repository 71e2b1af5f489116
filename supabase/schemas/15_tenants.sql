-- Tenants in turn: the part of a claim that goes to the tenants of a lane one after the other, whatever the length of
-- their queues.

-- Return how many jobs in a row a tenant gets where tenants take turns: 1 to 100; 1 for what is no number.
create function public.giftcard_weight(p_weights jsonb, p_tenant_id text) returns integer
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return greatest(1, coalesce(public.giftcard_limit_number(p_weights, p_tenant_id, 100), 1))::integer;
end $$;

-- Return whether a limit holds back all jobs of a tenant in a stage: one of 0, or one that is known to be used up.
create function public.giftcard_is_held_back(s public.giftcard_claim_state, p_stage text, p_tenant_id text)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return 'tenant ' || p_stage || ' ' || p_tenant_id = any (s.busy)
         or coalesce(public.giftcard_tenant_limit(s.limits, p_stage, p_tenant_id) ->> 'runs' = '0', false);
end $$;

-- Return the tenants that have a turn now in a lane, the next one first, p_most at most, and the weight of each.
-- p_last: the tenant of the last turn (empty: none); where its turn goes on, it comes first, else last. stopped_at: the
-- last one walked over, if there may be more behind it; empty: the walk has gone round. One walk: to the end, then from
-- the first tenant on; of 75 tenants at most, those whose jobs are not due among them.
create function public.giftcard_tenants_in_turn(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_last text, p_goes_on boolean, p_most integer,
  p_now timestamptz, out names text[], out weights integer[], out stopped_at text)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_seen integer;
begin
  with recursive walk as (
    select p_last collate "C" as tenant_id, p_goes_on as has_turn, p_last = '' as again, 0 as seen, 0 as found
    union all
    select n.tenant_id,
           n.due and (s.limits = '{}' or not public.giftcard_is_held_back(
             s, public.giftcard_stage_of(p_circuit), n.tenant_id)),
           n.again, w.seen + 1, w.found + w.has_turn::integer
      from walk w cross join lateral (
        -- Postgres reads the second part only where the first has no row.
        (select j.tenant_id, j.scheduled_at <= p_now as due, w.again from public.giftcard_jobs j
          where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id > w.tenant_id
          order by j.tenant_id, j.scheduled_at, j.id limit 1)
        union all
        (select j.tenant_id, j.scheduled_at <= p_now, true from public.giftcard_jobs j
          where not w.again and j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
          order by j.tenant_id, j.scheduled_at, j.id limit 1)
        limit 1) n
     where w.found + w.has_turn::integer < p_most and w.seen < 75
       and (not n.again or p_last = '' or n.tenant_id < p_last or n.tenant_id = p_last and not p_goes_on))
  select coalesce(array_agg(k.tenant_id order by k.seen) filter (where k.has_turn), '{}'),
         coalesce(array_agg(case when s.weights = '{}' then 1 else public.giftcard_weight(s.weights, k.tenant_id) end
                            order by k.seen) filter (where k.has_turn), '{}'),
         max(k.seen), (array_agg(k.tenant_id order by k.seen desc))[1]
    into names, weights, v_seen, stopped_at from walk k;
  if cardinality(names) < p_most and v_seen < 75 then
    stopped_at := '';
  end if;
end $$;

-- Pick up to p_wanted due jobs of a lane for the tenants whose turn it is, each its weight in a row, from where the
-- last claim of the circuit stopped. The row in giftcard_turns is a hint: a claim that holds it is not waited for.
create function public.giftcard_pick_by_tenant(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  t public.giftcard_turns;
  v_goes_on boolean := false;  -- the tenant of the last turn has not had its weight in a row
  v_picked bigint[];
  v_last text;
  v_taken integer;
  n record;                    -- whose turn it is
begin
  select * into t from public.giftcard_turns where circuit = p_circuit;
  if s.weights <> '{}' and t.tenant_id <> '' then
    v_goes_on := t.taken < public.giftcard_weight(s.weights, t.tenant_id)
                 and not public.giftcard_is_held_back(s, public.giftcard_stage_of(p_circuit), t.tenant_id);
  end if;
  n := public.giftcard_tenants_in_turn(
    s, p_circuit, p_lane, coalesce(t.tenant_id, ''), v_goes_on, least(p_wanted, 25), p_now);
  -- Locks a few more than it picks, where tenants have many turns: of each as many as all turns may need.
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
           and (j.concurrency_key is null
                or 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key <> all (s.busy))
         order by j.scheduled_at, j.id
         limit u.weight * ((p_wanted - 1) / (select sum(a) from unnest(n.weights) a) + 1) for update skip locked) g) r
     order by turn, r.place, r.nth limit p_wanted) x;
  if cardinality(v_picked) < p_wanted then
    v_last := n.stopped_at;
    v_taken := 100;  -- its turn is over
  end if;
  update public.giftcard_turns set tenant_id = v_last, taken = v_taken
   where circuit = (select f.circuit from public.giftcard_turns f where f.circuit = p_circuit for update skip locked);
  if t.circuit is null and pg_try_advisory_xact_lock(hashtextextended('turns of ' || p_circuit, 0)) then
    insert into public.giftcard_turns (circuit, tenant_id, taken) values (p_circuit, v_last, v_taken)
    on conflict do nothing;
  end if;
  return v_picked;
end $$;
