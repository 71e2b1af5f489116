-- The claim: scan the queues, pick jobs, mark them, take over what killed functions left. All of it in one call.

-- Return the claimed jobs as a JSON array in the order of p_ids: an array for each, as lib/store/codec.py reads it and
-- giftcard_step writes it. What the caller knows is left out: the lease and the owner. json, not jsonb: it is written
-- once, four times as fast. Payload and context are text in it: one that Python cannot parse spoils its own job only.
create function public.giftcard_claimed_jobs(
  p_ids bigint[], p_lease_id uuid, p_interrupted bigint[], p_stages jsonb) returns json
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  return (
    select coalesce(json_agg(json_build_array(
             j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit, j.payload::text, j.context::text,
             j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
             coalesce(j.ttr_seconds, (p_stages ->> j.stage)::integer, 60), j.retry_delays, j.scheduled_at, j.locked_at,
             j.id = any (p_interrupted), j.source) order by array_position(p_ids, j.id)), '[]')
      from public.giftcard_jobs j
     where j.id = any (p_ids) and j.status = v_running and j.lease_id = p_lease_id);
end $$;

-- Return the queues that a tick knows from its last claim, within a second of its scan. Empty: there are none, or one
-- is not open any more.
create function public.giftcard_known_queues(t public.giftcard_ticks, p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return case when t.scanned_at between p_now - interval '1 second' and p_now
    and not exists (select from public.giftcard_stages s where s.paused_at is not null and (
      s.stage = '*' or s.stage = any (array(select public.giftcard_stage_of(q.circuit) from unnest(t.cursors) q))))
    and not exists (select from public.giftcard_circuits c
                     where c.state <> 'closed'
                       and c.circuit = any (array(select q.circuit from unnest(t.cursors) q)))
    then t.cursors else '{}' end;
end $$;

-- Return whether a claim's key is older than another of its tick: the call comes late, and no one runs what it claims.
-- The keys of a tick share all but the last group, which counts. Other keys have no order.
create function public.giftcard_is_older_key(p_claim_key uuid, p_than uuid) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return coalesce(p_claim_key < p_than and left(p_claim_key::text, 24) = left(p_than::text, 24), false);
end $$;

-- Keep the key of a claim that has found nothing, so that an older one which comes late is known. Not the begin's: it
-- is the first.
create function public.giftcard_mark_scan(t public.giftcard_ticks, p_claim_key uuid) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_claim_key <> t.key then
    update public.giftcard_ticks set claim_key = p_claim_key, claim_ids = '{}', claim_interrupted = '{}'
     where id = t.id;
  end if;
end $$;

-- Claim up to p_limit due jobs for a tick, after up to 10 interrupted runs (outside the limit). The circuits take
-- turns, those that this tick has started the fewest jobs of first. The claim's key becomes the lease of what it
-- claims: a repeated call with the same key returns the same live leases and claims no others. late: a later claim of
-- the tick was carried out before it.
-- next_due_at: null when as many jobs were found as were asked for, and when nothing waits. p_one_by_one: slower, for a
-- call that has failed: a row at fault is put aside.
-- p_claimed: jobs that this call has claimed already. put_aside: how many picked jobs were not claimed; served: the
-- tick's, with what was picked.
-- A tick in a backlog scans all queues once a second; in between it continues from the cursors of its last claim. Until
-- vacuum, claimed jobs leave dead entries at the head of each queue, which the cursors skip.
-- Statistics of a queue are always stale: every plan here uses an index, or is wrong. A sort that cannot be avoided
-- then costs so much on paper that Postgres before 18 would compile the plan.
create function public.giftcard_claim_for(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_one_by_one boolean, p_now timestamptz,
  p_claimed bigint[] default '{}', out jobs json, out claimed integer, out paused boolean,
  out next_due_at timestamptz, out put_aside integer, out served jsonb, out late boolean)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  s public.giftcard_claim_state;
  q record; m record;        -- the scan, and what was marked
  v_ended bigint[] := '{}'::bigint[]; v_half_open text[] := '{}'::text[];
begin
  select '[]'::json, 0, 0, false, public.giftcard_is_older_key(p_claim_key, t.claim_key)
    into jobs, claimed, put_aside, paused, late;
  if t.claim_key = p_claim_key and t.claim_ids <> '{}' and p_claimed = '{}' then
    jobs := public.giftcard_claimed_jobs(t.claim_ids, p_claim_key, t.claim_interrupted, t.stages);
    claimed := json_array_length(jobs);
    return;
  elsif late or t.ended_at is not null then
    return;  -- no one runs what it claims
  elsif exists (select from public.giftcard_stages where stage = '*' and paused_at is not null) then
    select true, cardinality(p_claimed), public.giftcard_claimed_jobs(p_claimed, p_claim_key, '{}', t.stages)
      into paused, claimed, jobs;
    return;
  end if;
  s := public.giftcard_begin_claim(t, p_claim_key, p_limit, p_now);
  s.queues := public.giftcard_known_queues(t, p_now);
  s := case when p_limit > 0 and s.queues <> '{}' then public.giftcard_pick_jobs(s, t.only_job_id, p_now) else s end;
  if s.remaining > 0 or p_limit <= 0 then
    t.scanned_at := p_now;
    t.served := s.served;
    q := public.giftcard_scan_queues(t, p_limit, p_now);
    v_ended := q.ended;
    s.queues := q.open;
    s.skipped := q.skipped;
    if q.many then
      q := public.giftcard_pick_on_walk(s, t, p_limit, p_one_by_one, p_now);
      s := q.s;
    elsif q.half_open <> '{}' then
      s := public.giftcard_pick_probes(s, q.half_open, t.only_job_id, p_one_by_one, p_now);
    end if;
    v_half_open := q.half_open;
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;
  if cardinality(v_ended) + cardinality(s.ids) > 0 then
    m := public.giftcard_mark_claimed(t, p_claim_key, s, p_claimed, v_ended, v_half_open, p_one_by_one, p_now);
    put_aside := cardinality(v_ended) + cardinality(s.ids) - cardinality(m.ended) - cardinality(m.ids);
    p_claimed := p_claimed || m.ended || m.ids;
  end if;
  if p_claimed <> '{}' then
    select cardinality(p_claimed), public.giftcard_claimed_jobs(p_claimed, p_claim_key, v_ended, t.stages)
      into claimed, jobs;
  elsif not p_one_by_one then perform public.giftcard_mark_scan(t, p_claim_key); end if;
  served := s.served;
  if s.remaining > 0 or p_limit <= 0 then
    next_due_at := public.giftcard_next_due(
      q.next_due_at, s.claimed_from, s.limited_until, t.only_stage is null and t.only_job_id is null, t.revives,
      s.skipped, p_now);
  end if;
end $$;

-- Claim one by one, until a job is claimed, no row is at fault or 3 s are over; then more is due at once. What is put
-- aside counts as served, so that the circuits take turns.
create function public.giftcard_claim_each(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_now timestamptz, out jobs json, out claimed integer,
  out paused boolean, out next_due_at timestamptz, out late boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_until timestamptz := clock_timestamp() + interval '3 seconds';
  c record;
begin
  -- What the tick has written down of itself may be what is at fault.
  t.served := '{}'::jsonb;
  t.cursors := '{}'::public.giftcard_cursor[];
  loop
    c := public.giftcard_claim_for(t, p_claim_key, p_limit, true, p_now);
    exit when c.claimed > 0 or c.put_aside = 0 or clock_timestamp() >= v_until;
    t.served := c.served;
  end loop;
  jobs := c.jobs;
  claimed := c.claimed;
  paused := c.paused;
  late := c.late;
  next_due_at := case when c.claimed = 0 and c.put_aside > 0 then p_now else c.next_due_at end;
end $$;

-- Claim for a tick that has settled nothing in this call. The lock, of what the keys of a tick share, makes a repeated
-- claim and one that comes late wait for the first.
-- p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_claim(
  p_tick_id bigint, p_claim_key uuid, p_limit integer, p_now timestamptz default null,
  p_one_by_one boolean default false, out jobs json, out claimed integer, out paused boolean,
  out next_due_at timestamptz, out late boolean)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  t public.giftcard_ticks;
  c record;
begin
  perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0));
  v_now := coalesce(p_now, clock_timestamp());
  select * into t from public.giftcard_ticks where id = p_tick_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  if p_one_by_one then
    c := public.giftcard_claim_each(t, p_claim_key, p_limit, v_now);
  else
    c := public.giftcard_claim_for(t, p_claim_key, p_limit, false, v_now);
  end if;
  jobs := c.jobs;
  claimed := c.claimed;
  paused := c.paused;
  next_due_at := c.next_due_at;
  late := c.late;
end $$;
