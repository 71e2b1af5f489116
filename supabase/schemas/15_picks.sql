-- Picks: which due jobs a claim takes.

-- A claim under way.
create type public.giftcard_claim_state as (
  ids bigint[],                       -- jobs picked so far: locked
  remaining integer,                  -- jobs still wanted
  queues public.giftcard_cursor[],    -- circuits with a due job, in their turn
  claimed_from text[],
  served jsonb,                       -- jobs that the tick has started, by circuit
  capacity jsonb,                     -- runs that limited stages may still begin; {}: no limits
  is_full boolean,                    -- a limited stage had more due jobs than capacity
  skipped bigint[]                    -- jobs to pass over
);

-- Lock the probe of a half-open circuit and return its id: among the first 50 due jobs the one with the fewest
-- attempts. null: a probe runs, another claim is choosing one, or nothing is due. Records the change open → half_open.
create function public.giftcard_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_now timestamptz) returns bigint
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
       select q.id, q.attempts, q.scheduled_at from public.giftcard_jobs q
        where q.status = 'queued' and q.circuit = p_circuit and q.scheduled_at <= p_now and q.id <> all (p_skipped)
        order by q.scheduled_at, q.id limit 50) f
      order by f.attempts, f.scheduled_at, f.id limit 1))
   for update skip locked;
  if v_id is not null and c.state = 'open' then
    perform public.giftcard_change_circuit(p_circuit, 'half_open', 'cooldown over', v_id, c.open_until, p_now);
  end if;
  return v_id;
end $$;

-- Pick a probe, unless that fails: the circuit at fault stays as it is, and ticks pass over it for ten minutes.
create function public.giftcard_try_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return public.giftcard_pick_probe(p_circuit, p_only_job_id, p_skipped, p_now);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    'circuit', p_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
  return null;
end $$;

-- Pick one job as the probe of each half-open circuit, while jobs are wanted. p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_pick_probes(
  s public.giftcard_claim_state, p_half_open text[], p_only_job_id bigint, p_one_by_one boolean, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text;
  v_id bigint;
begin
  foreach v_circuit in array p_half_open loop
    exit when s.remaining <= 0;
    if s.capacity <> '{}' and (s.capacity ->> public.giftcard_stage_of(v_circuit))::integer = 0 then
      s.is_full := true;
      continue;
    end if;
    v_id := case when p_one_by_one
                 then public.giftcard_try_pick_probe(v_circuit, p_only_job_id, s.skipped, p_now)
                 else public.giftcard_pick_probe(v_circuit, p_only_job_id, s.skipped, p_now) end;
    continue when v_id is null;
    s.ids := s.ids || v_id;
    s.remaining := s.remaining - 1;
    s.capacity := public.giftcard_reduce_capacity(s.capacity, v_circuit, 1);
  end loop;
  return s;
end $$;

-- Pick due jobs from s.queues: the circuits take turns, in rounds, the oldest due job of each first. Leaves in s.queues
-- the circuits that had more, those without a turn first. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_pick_jobs(
  s public.giftcard_claim_state, p_only_job_id bigint, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_ids bigint[] := s.ids;
  v_left integer := s.remaining;
  v_served jsonb := s.served;
  v_again public.giftcard_cursor[];  -- the queues of the next round
  q public.giftcard_cursor;
  v_share integer;
  v_got bigint[];
  v_got_at timestamptz;              -- scheduled_at of the last of them
begin
  while v_left > 0 and cardinality(s.queues) > 0 loop
    v_again := '{}'::public.giftcard_cursor[];
    for i in 1 .. cardinality(s.queues) loop
      if v_left <= 0 then
        v_again := s.queues[i:] || v_again;
        exit;
      end if;
      q := s.queues[i];
      -- A fair share of what is left; what one circuit does not need comes to the others in the next round.
      v_share := (v_left + cardinality(s.queues) - i) / (cardinality(s.queues) - i + 1);
      if s.capacity <> '{}' then
        -- null, and so without effect, for a stage without a limit
        v_share := least(v_share, (s.capacity ->> public.giftcard_stage_of(q.circuit))::integer);
        s.is_full := s.is_full or v_share = 0;
        continue when v_share = 0;
      end if;
      if p_only_job_id is null then
        select coalesce(array_agg(g.id), '{}'), max(g.scheduled_at) into v_got, v_got_at from (
          select j.id, j.scheduled_at from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = q.circuit and j.scheduled_at <= p_now
             and j.id <> all (v_ids) and j.id <> all (s.skipped)
             and (j.scheduled_at, j.id) > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
           order by j.scheduled_at, j.id limit v_share for update skip locked) g;
      else
        v_got := array(select id from public.giftcard_jobs
                        where id = p_only_job_id and status = 'queued' and id <> all (v_ids) for update skip locked);
      end if;
      v_ids := v_ids || v_got;
      v_left := v_left - cardinality(v_got);
      s.claimed_from := s.claimed_from || q.circuit;
      v_served := v_served || jsonb_build_object(
        q.circuit, coalesce((v_served ->> q.circuit)::integer, 0) + cardinality(v_got));
      if s.capacity <> '{}' then
        s.capacity := public.giftcard_reduce_capacity(s.capacity, q.circuit, cardinality(v_got));
      end if;
      if cardinality(v_got) = v_share then
        v_again := v_again || row(q.circuit, v_got_at, v_got[v_share])::public.giftcard_cursor;
      end if;
    end loop;
    s.queues := v_again;
  end loop;
  s.ids := v_ids;
  s.remaining := v_left;
  s.served := v_served;
  return s;
end $$;
