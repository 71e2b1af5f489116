-- The claim.

-- What claimed jobs look like to their worker: an array in the order of p_ids. json, not jsonb: it is written once and four times as
-- fast. Payload and context are text in it: one that Python cannot read spoils its own job only.
create function public.giftcard_claimed_jobs(p_ids bigint[], p_lease_id uuid, p_interrupted bigint[], p_stages jsonb) returns json
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  -- A variable, not a literal: with one, the planner may take the index of running rows for the few ids, and read all of it.
  v_running constant text := 'running';
begin
  return (
    select coalesce(json_agg(c), '[]') from (
      select j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit, j.payload::text as payload_json, j.context::text as context_json,
             j.attempts, j.max_attempts, j.run_no,
             j.revivals, j.semantics, coalesce(j.ttr_seconds, (p_stages ->> j.stage)::integer, 60) as ttr, j.retry_delays,
             j.scheduled_at, j.locked_at, j.lock_owner, j.lease_id, j.id = any (p_interrupted) as interrupted
        from public.giftcard_jobs j
       where j.id = any (p_ids) and j.status = v_running and j.lease_id = p_lease_id
       order by array_position(p_ids, j.id)) c);
end $$;

-- When something may start for a tick that found less than it asked for: a retry or a scheduled job, a circuit that half-opens, a lease
-- that ends, a revival. null: never, as things stand.
create function public.giftcard_next_due(p_heads_at timestamptz, p_claimed_from text[], p_now timestamptz) returns timestamptz
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  select least(
    p_heads_at,
    (select min(n.scheduled_at) from unnest(p_claimed_from) c(circuit) cross join lateral (
       select j.scheduled_at from public.giftcard_jobs j
        where j.status = 'queued' and j.circuit = c.circuit and j.scheduled_at > p_now order by j.scheduled_at, j.id limit 1) n),
    (select coalesce(j.lease_expires_at, '-infinity'::timestamptz) from public.giftcard_jobs j where j.status = 'running'
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 1),
    (select j.revive_at from public.giftcard_jobs j where j.status = 'error' and j.revive_at is not null order by j.revive_at, j.id limit 1))
$$;

-- A look at all queues: up to 10 runs whose lease has ended, locked; the circuits that have a due job, in their turn (those that this tick
-- has started the fewest of come first); those that are half-open; and when something else may start.
create function public.giftcard_scan_queues(
  t public.giftcard_ticks, p_limit integer, p_now timestamptz,
  out ended bigint[], out open public.giftcard_cursor[], out half_open text[], out next_due_at timestamptz)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  ended := case when p_limit > 0 then array(
    select id from public.giftcard_jobs
     where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) <= p_now
     order by coalesce(lease_expires_at, '-infinity'::timestamptz), id limit 10 for update skip locked) else '{}' end;
  select coalesce(array_agg(row(q.circuit, null, null)::public.giftcard_cursor) filter (where q.due and q.availability = 'ready'), '{}'),
         coalesce(array_agg(q.circuit) filter (where q.due and q.availability = 'probing'), '{}'),
         min(case q.availability when 'blocked' then greatest(q.head_at, q.opens_at) when 'probing' then greatest(q.head_at, p_now + interval '1 second')
                         else q.head_at end) filter (where not q.due or q.availability = 'probing' or p_limit <= 0)
    into open, half_open, next_due_at
    from (select h.*, h.availability in ('ready', 'probing') and (h.head_at <= p_now or t.only_job_id is not null) as due
            from public.giftcard_queue_heads(t.stages, p_now) h
           where h.availability <> 'parked' and (t.only_stage is null or h.stage = t.only_stage)
             and (t.only_job_id is null or h.circuit = (select circuit from public.giftcard_jobs where id = t.only_job_id))
           order by coalesce((t.served ->> h.circuit)::integer, 0), h.head_at) q;
end $$;

-- Takes over up to 10 runs whose lease has ended (new lease of 30 s, marked interrupted, outside the limit), then claims up to
-- p_limit due jobs for a tick: the circuits take turns, those this tick has started the fewest of first, the oldest due job of
-- each first. The claim's key is the lease of what it takes: asking again with the same key brings the same live leases and no others.
-- p_unrestricted: no stage is paused, and no circuit has failed. next_due_at is null when as many came as were asked for, and when nothing waits.
-- A tick that works through a backlog looks at all queues once a second; in between it takes from those that had more, from where it
-- left off. Jobs that have gone leave dead entries at the head of each queue until vacuum comes: it does not read them again.
create function public.giftcard_claim_for(
  t public.giftcard_ticks, p_unrestricted boolean, p_claim_key uuid, p_limit integer, p_now timestamptz,
  out jobs json, out claimed integer, out paused boolean, out next_due_at timestamptz)
language plpgsql volatile security invoker
-- The statistics of a queue are always stale; each plan here is the index's, or wrong. A sort that cannot be avoided costs so much on
-- paper then that Postgres before 18 would compile the plan.
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_knows boolean;               -- goes by what the tick knows of the queues
  v_ended bigint[] := '{}'::bigint[];      -- runs taken over
  v_ids bigint[] := '{}'::bigint[];        -- jobs claimed
  v_open public.giftcard_cursor[];  -- circuits with a due job, in their turn
  v_again public.giftcard_cursor[];
  v_half_open text[] := '{}'::text[];
  v_from text[] := '{}'::text[];
  q public.giftcard_cursor;
  v_got bigint[];
  v_got_at timestamptz;          -- the time of the last of them
  v_share integer;
  v_left integer := p_limit;
  v_next timestamptz;
  v_circuit text;
  v_capacity jsonb := '{}'::jsonb;          -- what limited stages may still begin
  v_full boolean := false;       -- and whether one could have begun more
begin
  jobs := '[]';
  claimed := 0;
  paused := false;
  if t.claim_key = p_claim_key then
    jobs := public.giftcard_claimed_jobs(t.claim_ids, p_claim_key, t.claim_interrupted, t.stages);
    claimed := json_array_length(jobs);
    return;
  elsif not p_unrestricted and exists (select from public.giftcard_stages where stage = '*' and paused_at is not null) then
    paused := true;
    return;
  end if;

  v_knows := p_unrestricted and v_left > 0 and t.cursors <> '{}' and t.scanned_at between p_now - interval '1 second' and p_now;
  loop
    if v_knows then
      v_open := t.cursors;
    else
      t.scanned_at := p_now;
      select l.ended, l.open, l.half_open, l.next_due_at into v_ended, v_open, v_half_open, v_next from public.giftcard_scan_queues(t, p_limit, p_now) l;
      if t.limits <> '{}' and v_left > 0 then
        v_capacity := public.giftcard_remaining_capacity(t.limits, array(select circuit from unnest(v_open)) || v_half_open, p_now);
      end if;
      foreach v_circuit in array v_half_open loop
        exit when v_left <= 0;
        if (v_capacity ->> split_part(v_circuit, ':', 1))::integer = 0 then
          v_full := true;
          continue;
        end if;
        v_got := array_remove(array[public.giftcard_pick_probe(v_circuit, t.only_job_id, p_now)], null);
        v_ids := v_ids || v_got;
        v_left := v_left - cardinality(v_got);
        v_capacity := public.giftcard_reduce_capacity(v_capacity, v_circuit, cardinality(v_got));
      end loop;
    end if;

    while v_left > 0 and cardinality(v_open) > 0 loop
      v_again := '{}';
      for i in 1 .. cardinality(v_open) loop
        if v_left <= 0 then
          v_again := v_open[i:] || v_again;  -- those that had no turn come first in the next one
          exit;
        end if;
        q := v_open[i];
        -- A fair share of what is left; what one circuit does not need comes to the others in the next round.
        v_share := (v_left + cardinality(v_open) - i) / (cardinality(v_open) - i + 1);
        if v_capacity <> '{}' and v_capacity ? split_part(q.circuit, ':', 1) then
          v_share := least(v_share, (v_capacity ->> split_part(q.circuit, ':', 1))::integer);
          v_full := v_full or v_share = 0;
          continue when v_share = 0;
        end if;
        if t.only_job_id is null then
          select coalesce(array_agg(g.id), '{}'), max(g.scheduled_at) into v_got, v_got_at from (
            select j.id, j.scheduled_at from public.giftcard_jobs j
             where j.status = 'queued' and j.circuit = q.circuit and j.scheduled_at <= p_now and j.id <> all (v_ids)
               and (j.scheduled_at, j.id) > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
             order by j.scheduled_at, j.id limit v_share for update skip locked) g;
        else
          v_got := array(select id from public.giftcard_jobs where id = t.only_job_id and status = 'queued' and id <> all (v_ids)
                            for update skip locked);
        end if;
        v_ids := v_ids || v_got;
        v_left := v_left - cardinality(v_got);
        t.served := t.served || jsonb_build_object(q.circuit, coalesce((t.served ->> q.circuit)::integer, 0) + cardinality(v_got));
        v_from := v_from || q.circuit;
        if v_capacity <> '{}' then
          v_capacity := public.giftcard_reduce_capacity(v_capacity, q.circuit, cardinality(v_got));
        end if;
        if cardinality(v_got) = v_share then
          v_again := v_again || row(q.circuit, v_got_at, v_got[v_share])::public.giftcard_cursor;
        end if;
      end loop;
      v_open := v_again;
    end loop;
    exit when not v_knows or v_left <= 0;
    v_knows := false;  -- what it knew of has run dry
  end loop;

  if v_ended <> '{}' or v_ids <> '{}' then
    -- All of them are locked by now.
    update public.giftcard_jobs
       set status = 'running', attempts = attempts + 1, run_no = run_no + 1, lease_id = p_claim_key,
           lease_expires_at = p_now + make_interval(secs => 10 + coalesce(ttr_seconds, (t.stages ->> stage)::integer, 60)),
           locked_at = p_now, lock_owner = t.owner, updated_at = p_now,
           cancel_requested_at = null, revive_at = null, finished_at = null
     where id = any (v_ids);
    if v_ended <> '{}' then
      update public.giftcard_jobs
         set lease_id = p_claim_key, lease_expires_at = p_now + interval '30 seconds', lock_owner = t.owner,
             locked_at = coalesce(locked_at, p_now), updated_at = p_now
       where id = any (v_ended);
    end if;
    if v_half_open <> '{}' then
      update public.giftcard_circuits c set probe_job_id = j.id, probe_lease_id = j.lease_id
        from public.giftcard_jobs j
       where j.id = any (v_ids) and c.circuit = j.circuit and c.state = 'half_open' and c.circuit = any (v_half_open);
    end if;
    -- Many queues, limits and a job of its own want a look each time.
    if cardinality(v_open) > 20 or t.limits <> '{}' or t.only_job_id is not null then
      v_open := '{}';
    end if;
    update public.giftcard_ticks
       set claim_key = p_claim_key, claim_ids = v_ended || v_ids, claim_interrupted = v_ended,
           served = t.served, started = started + cardinality(v_ids), scanned_at = t.scanned_at, cursors = v_open
     where id = t.id;
    jobs := public.giftcard_claimed_jobs(v_ended || v_ids, p_claim_key, v_ended, t.stages);
    claimed := cardinality(v_ended || v_ids);
  end if;
  if v_left > 0 or p_limit <= 0 then
    if v_full then
      v_next := least(v_next, p_now + interval '1 second');  -- nobody tells when a place in a full stage is free again
    end if;
    if t.only_stage is null and t.only_job_id is null then
      v_next := least(v_next, public.giftcard_next_schedule_at(p_now));
    end if;
    next_due_at := public.giftcard_next_due(v_next, v_from, p_now);
  end if;
end $$;

-- Takes for a tick that has settled nothing in this call. The lock: a claim that is repeated waits for the first to end.
create function public.giftcard_claim(
  p_tick_id bigint, p_claim_key uuid, p_limit integer, p_now timestamptz default null,
  out jobs json, out claimed integer, out paused boolean, out next_due_at timestamptz)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  r record;
begin
  perform pg_advisory_xact_lock(hashtextextended(p_claim_key::text, 0));
  v_now := coalesce(p_now, clock_timestamp());
  select t as tick, not exists (select from public.giftcard_stages where paused_at is not null)
                    and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as calm
    into r from public.giftcard_ticks t where t.id = p_tick_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  select * into jobs, claimed, paused, next_due_at from public.giftcard_claim_for(r.tick, r.calm, p_claim_key, p_limit, v_now);
end $$;
