-- The claim: scan the queues, pick jobs, mark them, take over what killed functions left. All of it in one call.

-- Return the claimed jobs as a JSON array in the order of p_ids. json, not jsonb: it is written once, four times as
-- fast. Payload and context are text in it: one that Python cannot parse spoils its own job only.
create function public.giftcard_claimed_jobs(
  p_ids bigint[], p_lease_id uuid, p_interrupted bigint[], p_stages jsonb) returns json
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  return (
    select coalesce(json_agg(c), '[]') from (
      select j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit,
             j.payload::text as payload_json, j.context::text as context_json,
             j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
             coalesce(j.ttr_seconds, (p_stages ->> j.stage)::integer, 60) as ttr, j.retry_delays,
             j.scheduled_at, j.locked_at, j.lock_owner, j.lease_id, j.id = any (p_interrupted) as interrupted
        from public.giftcard_jobs j
       where j.id = any (p_ids) and j.status = v_running and j.lease_id = p_lease_id
       order by array_position(p_ids, j.id)) c);
end $$;

-- Give the interrupted runs p_ids a new lease of 30 s. The caller holds their rows.
create function public.giftcard_take_over(p_ids bigint[], p_claim_key uuid, p_owner text, p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  update public.giftcard_jobs
     set lease_id = p_claim_key, lease_expires_at = p_now + interval '30 seconds', lock_owner = p_owner,
         locked_at = coalesce(locked_at, p_now), updated_at = p_now
   where id = any (p_ids);
end $$;

-- Mark jobs as claimed by a tick: each runs under a lease for its time to run and 10 s more, interrupted runs are taken
-- over, and the tick's row keeps the claim, what it has served, and its cursors (null: none). The caller holds all
-- rows; the planner's settings are those of giftcard_claim_for.
create function public.giftcard_mark_claimed(
  p_tick_id bigint, p_owner text, p_stages jsonb, p_claim_key uuid, p_ids bigint[], p_interrupted bigint[],
  p_half_open text[], p_served jsonb, p_scanned_at timestamptz, p_cursors public.giftcard_cursor[], p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_jobs
     set status = 'running', attempts = attempts + 1, run_no = run_no + 1, lease_id = p_claim_key,
         lease_expires_at =
           p_now + make_interval(secs => 10 + coalesce(ttr_seconds, (p_stages ->> stage)::integer, 60)),
         locked_at = p_now, lock_owner = p_owner, updated_at = p_now,
         cancel_requested_at = null, revive_at = null, finished_at = null
   where id = any (p_ids);
  if p_interrupted <> '{}' then
    perform public.giftcard_take_over(p_interrupted, p_claim_key, p_owner, p_now);
  end if;
  if p_half_open <> '{}' then
    update public.giftcard_circuits c set probe_job_id = j.id, probe_lease_id = j.lease_id
      from public.giftcard_jobs j
     where j.id = any (p_ids) and c.circuit = j.circuit and c.state = 'half_open' and c.circuit = any (p_half_open);
  end if;
  update public.giftcard_ticks
     set claim_key = p_claim_key, claim_ids = p_interrupted || p_ids, claim_interrupted = p_interrupted,
         served = p_served, started = started + cardinality(p_ids), scanned_at = p_scanned_at,
         cursors = coalesce(p_cursors, '{}')
   where id = p_tick_id;
end $$;

-- Claim up to p_limit due jobs for a tick, after up to 10 interrupted runs (outside the limit). The circuits take
-- turns, those that this tick has started the fewest jobs of first. The claim's key becomes the lease of what it
-- claims: a repeated call with the same key returns the same live leases and claims no others.
-- p_unrestricted: no stage is paused and no circuit has failed. next_due_at: null when as many jobs were found as were
-- asked for, and when nothing waits.
-- A tick in a backlog scans all queues once a second; in between it continues from the cursors of its last claim. Until
-- vacuum, claimed jobs leave dead entries at the head of each queue, which the cursors skip.
-- Statistics of a queue are always stale: every plan here uses an index, or is wrong. A sort that cannot be avoided
-- then costs so much on paper that Postgres before 18 would compile the plan.
create function public.giftcard_claim_for(
  t public.giftcard_ticks, p_unrestricted boolean, p_claim_key uuid, p_limit integer, p_now timestamptz,
  out jobs json, out claimed integer, out paused boolean, out next_due_at timestamptz)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  s public.giftcard_claim_state;
  q record;                  -- the scan
  v_known boolean;           -- the cursors of the last claim still hold
  v_ended bigint[] := '{}'::bigint[];
  v_half_open text[] := '{}'::text[];
begin
  jobs := '[]'::json;
  claimed := 0;
  paused := false;
  if t.claim_key = p_claim_key then
    jobs := public.giftcard_claimed_jobs(t.claim_ids, p_claim_key, t.claim_interrupted, t.stages);
    claimed := json_array_length(jobs);
    return;
  elsif not p_unrestricted and exists (
      select from public.giftcard_stages where stage = '*' and paused_at is not null) then
    paused := true;
    return;
  end if;

  s := row('{}'::bigint[], p_limit, t.cursors, '{}'::text[], t.served, '{}'::jsonb, false);
  v_known := p_unrestricted and p_limit > 0 and t.cursors <> '{}'
             and t.scanned_at between p_now - interval '1 second' and p_now;
  if v_known then
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;
  if not v_known or s.remaining > 0 then
    t.scanned_at := p_now;
    t.served := s.served;
    q := public.giftcard_scan_queues(t, p_limit, p_now);
    v_ended := q.ended;
    s.queues := q.open;
    s.capacity := q.capacity;
    if q.half_open <> '{}' then
      v_half_open := q.half_open;
      s := public.giftcard_pick_probes(s, v_half_open, t.only_job_id, p_now);
    end if;
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;

  claimed := cardinality(v_ended) + cardinality(s.ids);
  if claimed > 0 then
    perform public.giftcard_mark_claimed(
      t.id, t.owner, t.stages, p_claim_key, s.ids, v_ended, v_half_open, s.served, t.scanned_at,
      -- Many queues, limits and a single job need a scan each time.
      case when cardinality(s.queues) <= 20 and t.limits = '{}' and t.only_job_id is null then s.queues end, p_now);
    jobs := public.giftcard_claimed_jobs(v_ended || s.ids, p_claim_key, v_ended, t.stages);
  end if;
  if s.remaining > 0 or p_limit <= 0 then
    next_due_at := public.giftcard_next_due(
      q.next_due_at, s.claimed_from, s.is_full, t.only_stage is null and t.only_job_id is null, p_now);
  end if;
end $$;

-- Claim for a tick that has settled nothing in this call. The lock makes a repeated claim wait for the first.
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
  select t as tick,
         not exists (select from public.giftcard_stages where paused_at is not null)
           and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as unrestricted
    into r from public.giftcard_ticks t where t.id = p_tick_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  r := public.giftcard_claim_for(r.tick, r.unrestricted, p_claim_key, p_limit, v_now);
  jobs := r.jobs;
  claimed := r.claimed;
  paused := r.paused;
  next_due_at := r.next_due_at;
end $$;
