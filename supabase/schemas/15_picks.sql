-- Picks: which due jobs a claim takes.

-- A claim under way.
create type public.giftcard_claim_state as (
  ids bigint[],                       -- jobs picked so far: locked
  remaining integer,                  -- jobs still wanted
  queues public.giftcard_cursor[],    -- circuits with a due job, in their turn
  claimed_from text[],
  served jsonb,                       -- jobs that the tick has started, by circuit
  limits jsonb,                       -- as giftcard_effective_limits returns them; {}: none
  limited_until timestamptz,          -- when what a limit or a probe holds back may start; null: none does
  busy text[],                        -- keys whose jobs cannot start now; null: not known, as no job has had a key
  skipped bigint[],                   -- jobs to pass over
  tick_id bigint,
  claim_key uuid,
  weights jsonb,                      -- of tenants
  allowed integer,                    -- starts that limits leave to the queue in turn
  reserved jsonb,                     -- and what is reserved for them
  got bigint[],                       -- jobs that the last careful pick took
  more boolean                        -- and whether its queue may have more
);

-- Lock the probe of a half-open circuit and return its id: among the first 50 due jobs the one with the fewest
-- attempts. p_busy: keys of limits whose jobs cannot start now. null: a probe runs, another claim is choosing one, or
-- nothing is due. Records the change open → half_open.
create function public.giftcard_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_busy text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  c public.giftcard_circuits;
  v_id bigint;
begin
  select * into c from public.giftcard_circuits
   where circuit = p_circuit and state <> 'closed' and open_until <= p_now for update skip locked;
  if not found or exists (
       select from public.giftcard_jobs where id = c.probe_job_id and status = 'running'
              and lease_id = c.probe_lease_id) then
    return null;
  end if;
  select j.id into v_id from public.giftcard_jobs j
   where j.status = 'queued' and j.id = coalesce(p_only_job_id, (
     select f.id from (
       select l.lane, q.* from public.giftcard_lanes(p_circuit) l(lane) cross join lateral (
         select n.id, n.attempts, n.scheduled_at from public.giftcard_jobs n
          where n.status = 'queued' and n.circuit = p_circuit and (-n.priority) = l.lane and n.scheduled_at <= p_now
            and n.id <> all (p_skipped) and 'tenant ' || n.stage || ' ' || n.tenant_id <> all (p_busy)
            and (n.concurrency_key is null
                 or 'key ' || replace(n.tenant_id, ' ', '%20') || ' ' || n.concurrency_key <> all (p_busy))
          order by n.scheduled_at, n.id limit 50) q
        order by l.lane, q.scheduled_at, q.id limit 50) f
      order by f.attempts, f.lane, f.scheduled_at, f.id limit 1))
   for update skip locked;
  if v_id is not null and c.state = 'open' then
    perform public.giftcard_change_circuit(p_circuit, 'half_open', 'cooldown over', v_id, c.open_until, p_now);
  end if;
  return v_id;
end $$;

-- Pick a probe, unless that fails: the circuit at fault stays as it is, and ticks pass over it for ten minutes.
create function public.giftcard_try_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_busy text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return public.giftcard_pick_probe(p_circuit, p_only_job_id, p_skipped, p_busy, p_now);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    'circuit', p_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
  return null;
end $$;

-- Pick one job as the probe of each half-open circuit, while jobs are wanted. What the limits of its tenant or its key
-- hold back is no probe: the next one is tried, up to 20 a circuit. p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_pick_probes(
  s public.giftcard_claim_state, p_half_open text[], p_only_job_id bigint, p_one_by_one boolean, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text;
  v_id bigint;
  r record;  -- what the limits of the circuit leave
  a record;  -- and those of the job
begin
  foreach v_circuit in array p_half_open loop
    exit when s.remaining <= 0;
    r := public.giftcard_reserve_starts(s.limits, v_circuit, 1, 1, s.claim_key, p_now);
    s.limited_until := least(s.limited_until, r.until);
    continue when r.allowed = 0;
    s.busy := coalesce(s.busy, public.giftcard_busy_keys(s.limits, p_now));
    for i in 1 .. 20 loop
      v_id := case when p_one_by_one
                   then public.giftcard_try_pick_probe(v_circuit, p_only_job_id, s.skipped, s.busy, p_now)
                   else public.giftcard_pick_probe(v_circuit, p_only_job_id, s.skipped, s.busy, p_now) end;
      if i = 1 and v_id is null then
        s.limited_until := least(s.limited_until, p_now + interval '1 second');  -- nothing notifies of a probe's end
      end if;
      exit when v_id is null;
      a := public.giftcard_admit(s.limits, array[v_id], s.claim_key, p_now);
      s.limited_until := least(s.limited_until, case when a.admitted = '{}' then a.until
                                                     else p_now + interval '1 second' end);
      if a.admitted <> '{}' then
        perform public.giftcard_take_starts(s.limits, r.reserved, a.admitted, s.claim_key, p_now);
        s.ids := s.ids || v_id;
        s.remaining := s.remaining - 1;
      end if;
      s.busy := s.busy || a.busy;
      exit when a.admitted <> '{}' or p_only_job_id is not null;
    end loop;
  end loop;
  return s;
end $$;

-- Begin a claim of up to p_limit jobs for a tick.
create function public.giftcard_begin_claim(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql stable security invoker set search_path = '' as $$
declare
  s public.giftcard_claim_state;
begin
  s.ids := '{}'::bigint[];
  s.remaining := p_limit;
  s.queues := '{}'::public.giftcard_cursor[];
  s.claimed_from := '{}'::text[];
  s.served := t.served;
  s.limits := case when t.limits = '{}' and not exists (select from public.giftcard_limits) then '{}'::jsonb
                   else public.giftcard_effective_limits(t.limits, p_now) end;
  s.skipped := '{}'::bigint[];
  s.tick_id := t.id;
  s.claim_key := p_claim_key;
  s.weights := t.tenant_weights;
  return s;
end $$;

-- Reserve up to p_wanted starts for the queue at p_place, under the limits of its stage and circuit: sets allowed and
-- reserved. The circuits of its stage whose turn is soon share what the stage's limit leaves.
create function public.giftcard_reserve_for_queue(
  s public.giftcard_claim_state, p_place integer, p_wanted integer, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text := s.queues[p_place].circuit;
  v_stage text := public.giftcard_stage_of(v_circuit);
  r record;
begin
  r := public.giftcard_reserve_starts(
    s.limits, v_circuit, p_wanted, case when cardinality(s.queues) = p_place then 1 else (
      select count(*)::integer from unnest(s.queues[p_place : p_place + 24]) c
       where starts_with(c.circuit || ':', v_stage || ':')) end, s.claim_key, p_now);
  s.allowed := r.allowed;
  s.reserved := r.reserved;
  s.limited_until := least(s.limited_until, r.until);
  return s;
end $$;

-- Pick due jobs from s.queues: the circuits take turns, in rounds, the oldest due job of each first. Leaves in s.queues
-- the circuits that had more, those without a turn first. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_pick_jobs(
  s public.giftcard_claim_state, p_only_job_id bigint, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_again public.giftcard_cursor[];  -- the queues of the next round
  q public.giftcard_cursor;
  v_wanted integer;                  -- jobs that the round is to pick
  v_share integer;
  v_got bigint[];
  v_keyed boolean;                   -- whether one has a concurrency key
  v_more boolean;                    -- whether the queue may have more
begin
  while s.remaining > 0 and cardinality(s.queues) > 0 loop
    v_again := '{}'::public.giftcard_cursor[];
    v_wanted := s.remaining;
    for i in 1 .. cardinality(s.queues) loop
      -- A fair share; what one circuit does not need comes to others in the next round. giftcard_step shares alike.
      v_share := (v_wanted + cardinality(s.queues) - i) / cardinality(s.queues);
      if v_share = 0 then
        v_again := s.queues[i:] || v_again;
        exit;
      end if;
      q := s.queues[i];
      if s.limits <> '{}' then
        s := public.giftcard_reserve_for_queue(s, i, v_share, p_now);
        v_share := s.allowed;
        continue when v_share = 0;
        q.plain := q.plain and not public.giftcard_limits_tenants(s.limits, q.circuit);  -- may be set since the scan
      end if;
      q.plain := coalesce(q.plain, public.giftcard_is_plain(s.limits, q, v_share, p_only_job_id, p_now));
      if q.plain then
        select coalesce(array_agg(g.id), '{}'), max(g.scheduled_at), coalesce(bool_or(g.keyed), false)
          into v_got, q.scheduled_at, v_keyed from (
          select j.id, j.scheduled_at, j.concurrency_key is not null as keyed from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) = q.lanes[1]
             and j.scheduled_at <= p_now and j.id <> all (s.ids) and j.id <> all (s.skipped)
             and (j.scheduled_at, j.id) > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
           order by j.scheduled_at, j.id limit v_share for update skip locked) g;
        q.id := v_got[v_share];
        q.plain := not v_keyed;
        v_more := cardinality(v_got) = v_share;
      end if;
      if not q.plain then
        s := public.giftcard_pick_carefully(s, q, v_share, p_only_job_id, p_now);
        v_got := s.got;
        v_more := s.more;
        q.scheduled_at := null;
      end if;
      if s.limits <> '{}' then
        perform public.giftcard_take_starts(s.limits, s.reserved, v_got, s.claim_key, p_now);
      end if;
      s.ids := s.ids || v_got;
      s.remaining := s.remaining - cardinality(v_got);
      s.claimed_from := s.claimed_from || q.circuit;
      s.served := s.served || jsonb_build_object(
        q.circuit, coalesce((s.served ->> q.circuit)::integer, 0) + cardinality(v_got));
      v_again := case when v_more then v_again || q else v_again end;
    end loop;
    s.queues := v_again;
  end loop;
  return s;
end $$;
