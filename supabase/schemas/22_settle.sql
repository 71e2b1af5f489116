-- The settle.

-- Writes the outcomes of runs. p_results: an array of {id, lease_id, outcome: complete|retry|error|snooze|release} and,
-- as the outcome needs it, delay (seconds), error (text), revive (seconds; absent: never), context (merged), next (jobs
-- to enqueue in this transaction: same tenant and flow, context passed on), interrupted (true for a run taken over),
-- detail (kept with the run), trips (the threshold of its circuit, when this failure counts towards it). Complete
-- counts as a success by itself. settled: [{id, settled: 'settled'|'lease_lost', status, next_run_at}]; opened, closed:
-- circuits; sums: how many by outcome.
create function public.giftcard_settle(
  p_results jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null,
  out settled json, out opened text[], out closed text[], out sums jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_by_id jsonb;     -- results by the id of their job, where one has more to it than that it is complete
  v_lease_id uuid;   -- that of all results, if it is but one: most are what one claim took
  v_contexts boolean := p_results @? '$[*].context ? (@ != null)';
  v_details boolean := p_results @? '$[*].detail ? (@ != null)';
  v_next boolean := p_results @? '$[*].next ? (@ != null)';
  v_notify boolean;      -- somebody wants to be told
  v_failing boolean;  -- a circuit has failed
  v_ids bigint[];
  v_complete bigint[];
  v_unfinished bigint[];
  v_done bigint[];
  -- A variable, not a literal: with one, the planner may take the index of running rows for the few ids, and read all
  -- of it.
  v_running constant text := 'running';
begin
  if p_results is null or jsonb_typeof(p_results) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_results must be an array of results', 'p_results');
  end if;
  select array_agg(id), case when min(lease_id) = max(lease_id) and count(lease_id) = count(*) then min(lease_id)
                             end::uuid,
         array_agg(id) filter (where outcome = 'complete'),
         array_agg(id) filter (where outcome in ('retry', 'snooze', 'release', 'error'))
    into v_ids, v_lease_id, v_complete, v_unfinished
    from jsonb_to_recordset(p_results) as r(id bigint, lease_id text, outcome text);
  if coalesce(cardinality(v_complete), 0) + coalesce(cardinality(v_unfinished), 0) < jsonb_array_length(p_results) then
    perform public.giftcard_refuse(
      'GC400', 'each outcome must be complete, retry, error, snooze or release', 'outcome');
  end if;
  if v_contexts or v_next or v_details or v_lease_id is null or v_unfinished is not null then
    v_by_id := public.giftcard_results_by_id(p_results);
  end if;

  -- The run's line of history is written from the row that was just changed, in the same statement.
  if v_complete is not null then
    with done as (
      update public.giftcard_jobs
         set status = 'completed', last_error = null,
             context = case when v_contexts then context || coalesce(v_by_id -> id::text -> 'context', '{}')
                            else context end,
             lease_id = null, lease_expires_at = null, finished_at = v_now, updated_at = v_now
       where id = any (v_complete) and status = v_running
         and lease_id = coalesce(v_lease_id, (v_by_id -> id::text ->> 'lease_id')::uuid)
      returning id, run_no, attempts, stage, scheduled_at, locked_at, lock_owner), kept as (
      insert into public.giftcard_job_history
        (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
      select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, locked_at, v_now, lock_owner,
             coalesce(v_lease_id, (v_by_id -> id::text ->> 'lease_id')::uuid),
             case when v_details then v_by_id -> id::text -> 'detail' end
        from done
      returning job_id)
    select array_agg(job_id), json_agg(json_build_object('id', job_id,
                                                         'status', 'completed', 'settled', 'settled', 'next_run_at',
                                                         null))
      into v_done, settled from kept;
  end if;
  sums := jsonb_build_object('completed', coalesce(cardinality(v_done), 0));
  if v_unfinished is not null then
    v_unfinished := public.giftcard_settle_unfinished(v_unfinished, v_by_id, v_now);
    v_done := v_done || v_unfinished;
    sums := sums || (
      select jsonb_build_object(
          'retried', count(*) filter (where r ->> 'outcome' = 'retry'),
          'errored', count(*) filter (where r ->> 'outcome' = 'error'),
          'snoozed', count(*) filter (where r ->> 'outcome' = 'snooze'),
          'released', count(*) filter (where r ->> 'outcome' = 'release'),
          'interrupted', count(*) filter (where (r ->> 'interrupted')::boolean))
        from unnest(v_unfinished) i cross join lateral (select v_by_id -> i::text as r) x);
  end if;
  if v_next then
    perform public.giftcard_enqueue_next(v_done, v_by_id, p_now);
  end if;

  if v_unfinished is null and cardinality(v_done) = cardinality(v_ids) then
    -- All done, as nearly always: what the rows hold now is known without a look at them.
    sums := sums || '{"lease_lost": 0}';
  else
    if (select count(distinct i) from unnest(v_ids) i) < cardinality(v_ids) then
      perform public.giftcard_refuse('GC400', 'each job can be settled once a call', 'id');
    end if;
    v_by_id := coalesce(v_by_id, public.giftcard_results_by_id(p_results));
    select json_agg(s), sums || jsonb_build_object('lease_lost', count(*) filter (where s.settled = 'lease_lost'))
      into settled, sums from (
      select j.id, j.status,
             case when j.id = any (v_done) then 'settled'
                  -- a scalar, not exists(): that could become a hash of all history
                  else coalesce((select 'settled' from public.giftcard_job_history h
                                  where h.job_id = j.id and h.lease_id = (v_by_id -> j.id::text ->> 'lease_id')::uuid
                                    limit 1),
                                'lease_lost') end as settled,
             case j.status when 'queued' then j.scheduled_at when 'error' then j.revive_at end as next_run_at
        from public.giftcard_jobs j where j.id = any (v_ids)) s;
  end if;
  select exists (select from public.giftcard_webhook_endpoints where enabled),
         exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') into v_notify, v_failing;
  if v_notify then
    perform public.giftcard_enqueue_webhooks(v_done, v_now);
  end if;
  if v_failing or p_results @? '$[*].trips ? (@ != null)' then
    select * into opened, closed from public.giftcard_count_results(p_results, v_done, p_cooldown_seconds, v_now);
  else
    opened := '{}';
    closed := '{}';
  end if;
end $$;

-- Results by the id of their job.
create function public.giftcard_results_by_id(p_results jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_object_agg(r ->> 'id', r) from jsonb_array_elements(p_results) r
$$;

-- After how long a job that ends in error revives; null: never. The next occurrence of a recurring schedule comes
-- anyway.
create function public.giftcard_revives_in(p_trigger_type text, p_result jsonb) returns interval
language sql immutable security invoker set search_path = '' as $$
  select case when p_trigger_type <> 'schedule' then make_interval(secs => (p_result ->> 'revive')::double precision)
              end
$$;

-- Retry, snooze and release send a run back, error ends it; a wish to cancel turns each into cancelled.
create function public.giftcard_settle_unfinished(p_ids bigint[], p_by_id jsonb, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_running constant text := 'running';
  v_done bigint[];
begin
  with done as (
    update public.giftcard_jobs j
       set status = case when j.cancel_requested_at is not null then 'cancelled' when r ->> 'outcome' = 'error'
                         then 'error' else 'queued' end,
           attempts = j.attempts - case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end,
           last_error = coalesce(r ->> 'error', j.last_error),
           scheduled_at = case when j.cancel_requested_at is not null or r ->> 'outcome' = 'release' then j.scheduled_at
                               when r ->> 'outcome' = 'error'
                                   then coalesce(p_now + public.giftcard_revives_in(j.trigger_type, r), j.scheduled_at)
                               -- Woken while it ran (giftcard_make_due): what it waits for has come.
                               when r ->> 'outcome' = 'snooze' and j.scheduled_at > j.locked_at
                               then least(j.scheduled_at,
                                          p_now + make_interval(secs => (r ->> 'delay')::double precision))
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
       next_run_at, detail)
    select id, run_no, attempts + case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end, stage,
           case when (r ->> 'interrupted')::boolean then 'INTERRUPTED' when r ->> 'outcome' = 'snooze' then 'SNOOZED'
                when r ->> 'outcome' = 'release' then 'RELEASED' else 'FAILED' end,
           was_scheduled_at, locked_at, p_now, lock_owner, (r ->> 'lease_id')::uuid, r ->> 'error',
           case when status = 'queued' then scheduled_at when status = 'error' then revive_at end, r -> 'detail'
      from done
    on conflict (job_id, run_no) do update
      set result = excluded.result, finished_at = excluded.finished_at, lease_id = excluded.lease_id,
          error = excluded.error,
          next_run_at = excluded.next_run_at, detail = excluded.detail
    returning job_id)
  select coalesce(array_agg(job_id), '{}') into v_done from kept;
  return v_done;
end $$;

-- Enqueues what follows the settled: same tenant and flow, context passed on, the payload too unless the next job
-- brings its own. A job that was cancelled has nothing that follows; complete wins over a wish to cancel.
create function public.giftcard_enqueue_next(p_ids bigint[], p_by_id jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_next jsonb;
begin
  select jsonb_agg(jsonb_build_object('payload', j.payload)
                   || (select jsonb_object_agg(key, value) from jsonb_each(n.job) where value <> 'null')
           || jsonb_build_object('tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'context', j.context,
                                 'trigger_type', 'flow')
           order by j.id)
    into v_next
    from public.giftcard_jobs j
    cross join lateral jsonb_array_elements(p_by_id -> j.id::text -> 'next') n(job)
   where j.id = any (p_ids) and j.status in ('completed', 'error');
  if v_next is not null then
    perform public.giftcard_enqueue(v_next, false, p_now);
  end if;
end $$;

-- Lets the settled count for their circuits, in the order they are given. Circuits that neither fail now nor have
-- failed are not touched.
create function public.giftcard_count_results(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_now timestamptz,
  out opened text[], out closed text[])
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_state text;
  v_circuit text;
  r record;
begin
  opened := '{}';
  closed := '{}';
  if not p_results @? '$[*].trips' and not exists (select from public.giftcard_circuits
                                                   where failures > 0 or state <> 'closed') then
    return;
  end if;
  for r in
    select j.id, j.circuit, j.locked_at, (x.r ->> 'lease_id')::uuid as lease_id, (x.r ->> 'trips')::integer as trips,
           x.r ->> 'error' as error
      from jsonb_array_elements(p_results) with ordinality x(r, n)
      join public.giftcard_jobs j on j.id = (x.r ->> 'id')::bigint
      left join public.giftcard_circuits c on c.circuit = j.circuit
     where j.id = any (p_ids) and (x.r ? 'trips' or x.r ->> 'outcome' = 'complete'
                                   and (c.failures > 0 or c.state <> 'closed'
             or p_results @? '$[*].trips'))
     order by j.circuit, x.n
  loop
    if r.circuit is distinct from v_circuit then
      v_circuit := r.circuit;
      if r.trips is not null then
        insert into public.giftcard_circuits (circuit) values (v_circuit) on conflict (circuit) do nothing;
      end if;
      perform 1 from public.giftcard_circuits where circuit = v_circuit for update;
    end if;
    if r.trips is not null or exists (select from public.giftcard_circuits where circuit = v_circuit) then
      v_state := public.giftcard_count_result(r.circuit, r.id, r.lease_id, r.locked_at, r.trips, p_cooldown_seconds,
                                              coalesce(r.error, ''), p_now);
    end if;
    opened := case when v_state = 'open' then opened || r.circuit else opened end;
    closed := case when v_state = 'closed' then closed || r.circuit else closed end;
    v_state := null;
  end loop;
end $$;
