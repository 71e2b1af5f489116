-- The settle: outcomes of runs become states of jobs, history, next jobs, webhooks and states of circuits.

-- Record the outcomes of runs. p_results: an array of {id, lease_id, outcome: complete|retry|error|snooze|release} and,
-- as the outcome needs it, delay (seconds), error (text), revive (seconds; absent: never), context (merged), next (jobs
-- to enqueue in this transaction: same tenant and flow, context passed on), interrupted (true for a run taken over),
-- detail and frames (kept with the run), trips (the threshold of its circuit, when this failure counts towards it).
-- Complete counts as a success by itself.
-- settled: [{id, settled: 'settled'|'lease_lost', status, next_run_at}]; opened, closed: circuits; sums: how many by
-- outcome. p_guarded: webhooks and circuits that fail do not undo the settle.
create function public.giftcard_settle(
  p_results jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null,
  p_guarded boolean default false, out settled json, out opened text[], out closed text[], out sums jsonb)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_by_id jsonb;         -- results by the id of their job, where any has more to it than that it is complete
  g record;              -- ids by outcome, and the lease of all results, if they share one: most come from one claim
  v_done bigint[];
  v_batches bigint[];    -- of jobs that have ended; nearly always null
  r record;
begin
  if p_results is null or jsonb_typeof(p_results) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_results must be an array of results', 'p_results');
  end if;
  select array_agg(id) as ids,
         case when min(lease_id) = max(lease_id) and count(lease_id) = count(*) then min(lease_id)
              end::uuid as lease_id,
         array_agg(id) filter (where outcome = 'complete') as complete,
         array_agg(id) filter (where outcome in ('retry', 'snooze', 'release', 'error')) as unfinished
    into g from jsonb_to_recordset(p_results) as x(id bigint, lease_id text, outcome text);
  if coalesce(cardinality(g.complete), 0) + coalesce(cardinality(g.unfinished), 0) < jsonb_array_length(p_results) then
    perform public.giftcard_refuse('GC400', 'outcome must be complete, retry, error, snooze or release', 'outcome');
  end if;
  if g.unfinished is not null or g.lease_id is null or p_results @? '$[*].context ? (@ != null)'
     or p_results @? '$[*].detail ? (@ != null)' or p_results @? '$[*].next ? (@ != null)' then
    v_by_id := public.giftcard_results_by_id(p_results);
  end if;
  if g.complete is not null and g.unfinished is not null then
    -- Two statements: each locks its jobs by id, and this one those of both.
    perform from public.giftcard_jobs where id = any (g.ids) order by id for update;
  end if;
  if g.complete is not null then
    r := public.giftcard_settle_completed(g.complete, g.lease_id, v_by_id, v_now);
    v_done := r.done;
    v_batches := r.batches;
    settled := r.settled;
  end if;
  sums := jsonb_build_object('completed', coalesce(cardinality(v_done), 0), 'lease_lost', 0);
  if g.unfinished is not null then
    r := public.giftcard_settle_unfinished(g.unfinished, v_by_id, v_now);
    v_done := v_done || r.done;
    v_batches := v_batches || r.batches;
    sums := sums || r.sums;
  end if;
  if v_batches is not null or v_by_id @? '$.*.next ? (@ != null)' then
    perform public.giftcard_enqueue_next(v_done, v_by_id, v_batches, p_now);
  end if;
  -- When all are complete and settled, as nearly always, the rows need not be read again.
  if g.unfinished is not null or cardinality(v_done) is distinct from cardinality(g.ids) then
    r := public.giftcard_settled_jobs(g.ids, v_done, coalesce(v_by_id, public.giftcard_results_by_id(p_results)));
    settled := r.settled;
    sums := sums || jsonb_build_object('lease_lost', r.lease_lost);
  end if;
  r := public.giftcard_follow_up(p_results, v_done, p_cooldown_seconds, p_guarded, v_now);
  opened := r.opened;
  closed := r.closed;
end $$;

-- Return results as an object by the id of their job.
create function public.giftcard_results_by_id(p_results jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_object_agg(r ->> 'id', r) from jsonb_array_elements(p_results) r
$$;

-- Return after how long a job that ends in error revives; null: never. A recurring schedule's does not: the next
-- occurrence comes anyway.
create function public.giftcard_revives_in(p_trigger_type text, p_result jsonb) returns interval
language sql immutable security invoker set search_path = '' as $$
  select case when p_trigger_type <> 'schedule' then make_interval(secs => (p_result ->> 'revive')::double precision)
              end
$$;

-- Settle jobs that are complete; p_lease_id null: each result has its own lease. Return the ids of those settled, their
-- batches (null: none has one), and their part of what giftcard_settle returns. The line of history is written from
-- the row that was just changed, in the same statement. The planner's settings are those of giftcard_settle.
create function public.giftcard_settle_completed(
  p_ids bigint[], p_lease_id uuid, p_by_id jsonb, p_now timestamptz, out done bigint[], out batches bigint[],
  out settled json)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_contexts boolean := p_by_id @? '$.*.context ? (@ != null)';
  v_details boolean := p_by_id @? '$.*.detail ? (@ != null)';
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  with changed as (
    update public.giftcard_jobs
       set status = 'completed', last_error = null,
           context = case when v_contexts then context || coalesce(p_by_id -> id::text -> 'context', '{}')
                          else context end,
           lease_id = null, lease_expires_at = null, finished_at = p_now, updated_at = p_now
     where id = any (p_ids) and status = v_running
       and lease_id = coalesce(p_lease_id, (p_by_id -> id::text ->> 'lease_id')::uuid)
    returning id, run_no, attempts, stage, scheduled_at, locked_at, lock_owner, batch_id), kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
    select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner,
           coalesce(p_lease_id, (p_by_id -> id::text ->> 'lease_id')::uuid),
           case when v_details then p_by_id -> id::text -> 'detail' end
      from changed
    -- A line that is there already is another's: of an import, or of ids that began anew.
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = null, next_run_at = null,
          detail = excluded.detail, frames = null
    returning job_id)
  select array_agg(job_id), (select array_agg(batch_id) from changed where batch_id is not null),
         json_agg(json_build_object('id', job_id, 'status', 'completed', 'settled', 'settled', 'next_run_at', null))
    into done, batches, settled from kept;
end $$;

-- Settle jobs that are not complete: retry, snooze and release send a run back, error ends it; a requested cancel turns
-- each into cancelled. Return the ids of those settled, the batches of those that have ended, and how many by outcome.
create function public.giftcard_settle_unfinished(
  p_ids bigint[], p_by_id jsonb, p_now timestamptz, out done bigint[], out batches bigint[], out sums jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
set jit = off as $$
declare
  v_running constant text := 'running';
begin
  with changed as (
    update public.giftcard_jobs j
       set status = case when j.cancel_requested_at is not null then 'cancelled'
                         when r ->> 'outcome' = 'error' then 'error' else 'queued' end,
           -- Set to 0 by hand while it ran, it stays 0.
           attempts = greatest(0, j.attempts - case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end),
           last_error = coalesce(left(r ->> 'error', 500), j.last_error),
           scheduled_at = case
             when j.cancel_requested_at is not null or r ->> 'outcome' = 'release' then j.scheduled_at
             when r ->> 'outcome' = 'error'
             then coalesce(p_now + public.giftcard_revives_in(j.trigger_type, r), j.scheduled_at)
             -- Made due while it ran (giftcard_make_due): what it waits for has come.
             when r ->> 'outcome' = 'snooze' and j.scheduled_at > j.locked_at
             then least(j.scheduled_at, p_now + make_interval(secs => (r ->> 'delay')::double precision))
             else p_now + make_interval(secs => coalesce((r ->> 'delay')::double precision, 0)) end,
           revive_at = case when r ->> 'outcome' = 'error' and j.cancel_requested_at is null
                            then p_now + public.giftcard_revives_in(j.trigger_type, r) end,
           finished_at = case when r ->> 'outcome' = 'error' or j.cancel_requested_at is not null then p_now end,
           lease_id = null, lease_expires_at = null, updated_at = p_now
      from (select (e.key)::bigint as id, e.value as r from jsonb_each(p_by_id) e) x
     where j.id = any (p_ids) and x.id = j.id and j.status = v_running and j.lease_id = (r ->> 'lease_id')::uuid
    returning j.*, x.r, (select o.scheduled_at from public.giftcard_jobs o where o.id = j.id) as was_scheduled_at),
  kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, error,
       next_run_at, detail, frames)
    select id, run_no, attempts + case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end, stage,
           case when (r ->> 'interrupted')::boolean then 'INTERRUPTED' when r ->> 'outcome' = 'snooze' then 'SNOOZED'
                when r ->> 'outcome' = 'release' then 'RELEASED' else 'FAILED' end,
           was_scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner, (r ->> 'lease_id')::uuid,
           left(r ->> 'error', 500),
           -- giftcard_next_run_at, inline
           case status when 'queued' then scheduled_at when 'error' then revive_at end, r -> 'detail', r -> 'frames'
      from changed
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = excluded.error,
          next_run_at = excluded.next_run_at, detail = excluded.detail, frames = excluded.frames
    returning job_id)
  select coalesce(array_agg(job_id), '{}'),
         (select array_agg(batch_id) from changed
           where batch_id is not null and status <> 'queued' and revive_at is null)
    into done, batches from kept;
  sums := public.giftcard_count_outcomes(done, p_by_id);
end $$;

-- Count the unfinished results that were settled, by outcome; interrupted: those of runs taken over.
create function public.giftcard_count_outcomes(p_ids bigint[], p_by_id jsonb) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
        'retried', count(*) filter (where r ->> 'outcome' = 'retry'),
        'errored', count(*) filter (where r ->> 'outcome' = 'error'),
        'snoozed', count(*) filter (where r ->> 'outcome' = 'snooze'),
        'released', count(*) filter (where r ->> 'outcome' = 'release'),
        'interrupted', count(*) filter (where (r ->> 'interrupted')::boolean))
      from unnest(p_ids) i cross join lateral (select p_by_id -> i::text as r) x);
end $$;

-- Return how each job of a settle stands now: {id, status, settled, next_run_at}. A settle that is repeated is known by
-- the lease in the history. GC400 if a job is given twice.
create function public.giftcard_settled_jobs(
  p_ids bigint[], p_done bigint[], p_by_id jsonb, out settled json, out lease_lost bigint)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
set jit = off as $$
begin
  if (select count(distinct i) from unnest(p_ids) i) < cardinality(p_ids) then
    perform public.giftcard_refuse('GC400', 'each job can be settled once a call', 'id');
  end if;
  select json_agg(s), count(*) filter (where s.settled = 'lease_lost') into settled, lease_lost from (
    select j.id, j.status,
           case when j.id = any (p_done) then 'settled'
                -- A scalar, not exists(): that could become a hash of all history.
                else coalesce((select 'settled' from public.giftcard_job_history h
                                where h.job_id = j.id and h.lease_id = (p_by_id -> j.id::text ->> 'lease_id')::uuid
                                limit 1), 'lease_lost') end as settled,
           -- giftcard_next_run_at, inline
           case j.status when 'queued' then j.scheduled_at when 'error' then j.revive_at end as next_run_at
      from public.giftcard_jobs j where j.id = any (p_ids)) s;
end $$;

-- Enqueue what follows settled jobs: same tenant, flow, batch and source, context passed on; payload, priority and
-- concurrency key too unless the next job has its own. Nothing follows a cancelled job; complete wins over a requested
-- cancel. Then end p_batches, those of the jobs that have ended (null: none has one), if they were the last.
create function public.giftcard_enqueue_next(
  p_ids bigint[], p_by_id jsonb, p_batches bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_next jsonb;
begin
  select jsonb_agg(jsonb_build_object('payload', j.payload, 'priority', j.priority,
                                      'concurrency_key', j.concurrency_key)
                   || (select jsonb_object_agg(key, value) from jsonb_each(n.job) where value <> 'null')
           || jsonb_build_object('tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'context', j.context,
                                 'batch_id', j.batch_id, 'trigger_type', 'flow', 'source', j.source)
           order by j.id)
    into v_next
    from public.giftcard_jobs j
    cross join lateral jsonb_array_elements(p_by_id -> j.id::text -> 'next') n(job)
   where j.id = any (p_ids) and j.status in ('completed', 'error');
  if v_next is not null then
    perform public.giftcard_enqueue(v_next, p_commits => true, p_now => p_now);
  end if;
  if p_batches is not null then
    -- After the next jobs: these are in the batch.
    perform public.giftcard_end_batches(p_batches, coalesce(p_now, clock_timestamp()));
  end if;
end $$;
