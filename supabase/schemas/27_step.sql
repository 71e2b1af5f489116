-- The step: what nearly every call of a busy tick does. One statement settles the runs that are complete, keeps their
-- history and claims as many jobs; one before it locks the tick, one after it keeps what was claimed. What is rare is
-- left to giftcard_advance_tick.

-- Return the queues that a tick may claim from in the statement that settles: those that it knows, if only the time of
-- their jobs matters. Empty: the claim has to look first. p_looks: whether anything is paused, limited or not well, or
-- a job with a concurrency key is queued.
create function public.giftcard_plain_queues(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_looks boolean, p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
declare
  q public.giftcard_cursor;
begin
  if p_limit <= 0 or t.ended_at is not null or t.limits <> '{}' or t.claim_key = p_claim_key
     or public.giftcard_is_older_key(p_claim_key, t.claim_key)
     or not t.scanned_at between p_now - interval '1 second' and p_now then
    return '{}'::public.giftcard_cursor[];
  end if;
  foreach q in array t.cursors loop
    if q.plain is not true then
      return '{}'::public.giftcard_cursor[];
    end if;
  end loop;
  if p_looks and (exists (select from public.giftcard_limits) or exists (
      select from public.giftcard_jobs j
       where j.status = 'queued' and j.concurrency_key is not null
         and j.circuit = any (array(select k.circuit from unnest(t.cursors) k)))) then
    return '{}'::public.giftcard_cursor[];
  end if;
  return case when p_looks then public.giftcard_known_queues(t, p_now) else t.cursors end;
end $$;

-- Settle runs that are complete, as giftcard_settle_completed does, and claim up to p_limit jobs from p_queues, as
-- giftcard_pick_jobs and giftcard_mark_jobs do. Return the ids of those settled, their batches (null: none has one),
-- and of the claimed jobs, in their order: what they are, their ids, times and queues.
create function public.giftcard_settle_and_claim(
  t public.giftcard_ticks, p_ids bigint[], p_lease_ids uuid[], p_results jsonb, p_queues public.giftcard_cursor[],
  p_claim_key uuid, p_limit integer, p_now timestamptz,
  out done bigint[], out batches bigint[], out jobs json, out ids bigint[], out times timestamptz[],
  out queues integer[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  with done as (
    update public.giftcard_jobs j
       set status = 'completed', last_error = null, lease_id = null, lease_expires_at = null,
           finished_at = p_now, updated_at = p_now,
           context = case when p_results is null then j.context
                          else j.context || coalesce(p_results -> j.id::text -> 'context', '{}') end
      from unnest(p_ids, p_lease_ids) x(id, lease)
     where j.id = x.id and j.status = v_running and j.lease_id = x.lease
    returning j.id, j.run_no, j.attempts, j.stage, j.scheduled_at, j.locked_at, j.lock_owner, j.batch_id, x.lease),
  kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
    select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner, lease,
           p_results -> id::text -> 'detail'
      from done
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = null, next_run_at = null,
          detail = excluded.detail, frames = null),
  claimed as (
    update public.giftcard_jobs j
       set status = 'running', attempts = least(j.attempts + 1, 1000000), run_no = least(j.run_no + 1, 1000000000),
           lease_id = p_claim_key, lease_expires_at = p_now + make_interval(
             secs => 10 + coalesce(j.ttr_seconds, (t.stages ->> j.stage)::integer, 60)),
           locked_at = p_now, lock_owner = t.owner, updated_at = p_now,
           cancel_requested_at = null, revive_at = null, finished_at = null
      from (
        select i.at, q.n
          from unnest(p_queues) with ordinality q(circuit, lanes, plain, scheduled_at, id, n) cross join lateral (
            select k.ctid as at from public.giftcard_jobs k
             where k.status = 'queued' and k.circuit = q.circuit and (-k.priority) = q.lanes[1]
               and k.scheduled_at <= p_now and k.concurrency_key is null
               and (k.scheduled_at, k.id)
                   > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
             order by k.scheduled_at, k.id limit (p_limit + cardinality(p_queues) - q.n) / cardinality(p_queues)
               for update skip locked) i) p
     where j.ctid = p.at
    returning p.n, j.scheduled_at, j.id, json_build_array(
      j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit, j.payload::text, j.context::text,
      j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
      coalesce(j.ttr_seconds, (t.stages ->> j.stage)::integer, 60), j.retry_delays, j.scheduled_at, j.locked_at,
      false, j.source) as job)
  select d.ids, d.batches, c.jobs, c.ids, c.times, c.queues into done, batches, jobs, ids, times, queues
    from (select array_agg(d.id) as ids, array_agg(d.batch_id) filter (where d.batch_id is not null) as batches
            from done d) d,
         (select json_agg(o.job) as jobs, array_agg(o.id) as ids, array_agg(o.scheduled_at) as times,
                 array_agg(o.n::integer) as queues
            from (select * from claimed order by n, scheduled_at, id) o) c;
end $$;

-- Keep in a tick's row what a step has settled and claimed, as giftcard_count_in_tick and giftcard_mark_tick do.
create function public.giftcard_mark_step(
  t public.giftcard_ticks, p_queues public.giftcard_cursor[], p_claim_key uuid, p_limit integer, p_completed integer,
  p_ids bigint[], p_times timestamptz[], p_numbers integer[]) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_last integer := 0;   -- where a queue's jobs end
  v_share integer;
  v_got integer;
  v_more public.giftcard_cursor[] := '{}'::public.giftcard_cursor[];
  q public.giftcard_cursor;
begin
  if p_ids is null then
    update public.giftcard_ticks set completed = completed + p_completed where id = t.id;
    return;
  end if;
  for i in 1 .. cardinality(p_queues) loop
    v_share := (p_limit + cardinality(p_queues) - i) / cardinality(p_queues);
    if v_share = 0 then
      v_more := p_queues[i:] || v_more;  -- those without a turn first
      exit;
    end if;
    q := p_queues[i];
    v_got := case when cardinality(p_ids) = p_limit then v_share
                  else cardinality(array_positions(p_numbers, i)) end;
    v_last := v_last + v_got;
    t.served := t.served || jsonb_build_object(q.circuit, coalesce((t.served ->> q.circuit)::integer, 0) + v_got);
    if v_got = v_share then
      q.scheduled_at := p_times[v_last];
      q.id := p_ids[v_last];
      v_more := v_more || q;
    end if;
  end loop;
  update public.giftcard_ticks
     set completed = completed + p_completed, started = started + cardinality(p_ids), claim_key = p_claim_key,
         claim_ids = p_ids, claim_interrupted = '{}', served = t.served, cursors = v_more
   where id = t.id;
end $$;

-- Advance a tick whose results are all complete: as giftcard_advance_tick does, which is called for what is left.
-- p_ids, p_lease_ids: the runs, by id, as everybody locks jobs. p_results: what any of them has besides, by its id:
-- {"7": {context, detail, next}}; null: none has. The claim's key and the tick's row are locked first: a call that is
-- repeated waits for the first, and finds what it did.
create function public.giftcard_step(
  p_tick_id bigint, p_claim_key uuid, p_ids bigint[], p_lease_ids uuid[], p_limit integer, p_busy integer,
  p_results jsonb default null, p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null, p_plan boolean default true,
  p_wake jsonb default null) returns json
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '2s' as $$
declare
  v_now timestamptz;
  v_queues public.giftcard_cursor[];
  t public.giftcard_ticks;
  r record;  -- what it has to look at
  o record;  -- what the statement did
  f record;  -- and what followed
begin
  perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0));  -- as giftcard_claim
  select * into t from public.giftcard_ticks where id = p_tick_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  -- What has changed while the row was waited for counts: by a later clock, and in another statement, which sees it.
  v_now := coalesce(p_now, clock_timestamp());
  select exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as circuits,
         exists (select from public.giftcard_webhook_endpoints where enabled) as webhooks,
         exists (select from public.giftcard_stages where paused_at is not null)
           or exists (select from public.giftcard_limits)
           or exists (select from public.giftcard_jobs where status = 'queued' and concurrency_key is not null) as looks
    into r;
  v_queues := public.giftcard_plain_queues(t, p_claim_key, p_limit, r.looks or r.circuits, v_now);
  o := public.giftcard_settle_and_claim(
    t, p_ids, p_lease_ids, p_results, v_queues, p_claim_key, p_limit, v_now);
  perform public.giftcard_mark_step(
    t, v_queues, p_claim_key, p_limit, coalesce(cardinality(o.done), 0), o.ids, o.times, o.queues);
  f := public.giftcard_after_step(
    p_tick_id, p_ids, p_lease_ids, p_results, o.done, o.batches, r.circuits or r.webhooks, p_cooldown_seconds,
    p_wake is not null and p_stop is null, v_now);
  if cardinality(o.ids) = p_limit then
    return json_build_object(
      'settled', f.settled, 'opened', f.opened, 'closed', f.closed, 'jobs', o.jobs,
      'schedules', case when p_plan then public.giftcard_schedules_for(p_tick_id, false, v_now) end,
      'wake_in', case when p_wake is not null then public.giftcard_wake_helper(p_wake, p_limit, p_limit, v_now) end);
  end if;
  return public.giftcard_advance_tick(
    p_tick_id, p_claim_key, '[]', p_limit, p_busy, p_linger_seconds, p_stop, p_cooldown_seconds, p_now, p_plan, false,
    p_wake, jsonb_build_object('settled', f.settled, 'opened', f.opened, 'closed', f.closed), coalesce(o.ids, '{}'));
end $$;

-- Do what follows the settle of a step: next jobs, batches, webhooks and circuits; and find out about runs that it did
-- not settle. settled: null if it settled all.
create function public.giftcard_after_step(
  p_tick_id bigint, p_ids bigint[], p_lease_ids uuid[], p_results jsonb, p_done bigint[], p_batches bigint[],
  p_follow_up boolean, p_cooldown_seconds double precision, p_wakes boolean, p_now timestamptz,
  out settled json, out opened text[], out closed text[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_results jsonb;
  r record;
begin
  opened := '{}';
  closed := '{}';
  if p_wakes then perform set_config('giftcard.wakes', 'tick', true); end if;
  if p_batches is not null or p_results @? '$.*.next[*]' then
    perform public.giftcard_enqueue_next(p_done, p_results, p_batches, p_now);
  end if;
  if p_follow_up or cardinality(p_done) is distinct from cardinality(p_ids) then
    v_results := (select jsonb_agg(jsonb_build_object('id', id, 'lease_id', lease, 'outcome', 'complete'))
                    from unnest(p_ids, p_lease_ids) x(id, lease));
  end if;
  if cardinality(p_done) is distinct from cardinality(p_ids) then
    r := public.giftcard_settled_jobs(
      p_ids, coalesce(p_done, '{}'), public.giftcard_results_by_id(v_results));
    settled := coalesce(r.settled, '[]');  -- none: the rows are gone
    update public.giftcard_ticks set lease_lost = lease_lost + r.lease_lost where id = p_tick_id;
  end if;
  if p_follow_up then
    r := public.giftcard_follow_up(v_results, p_done, p_cooldown_seconds, false, p_now);
    opened := r.opened;
    closed := r.closed;
  end if;
end $$;
