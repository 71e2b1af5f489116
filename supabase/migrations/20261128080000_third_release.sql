-- The third release. What the schema holds now is told in supabase/schemas; this is the way there.

-- Where a tick stands in the queue of a circuit: behind this job, the last one it took. null: at the head.
create type public.giftcard_cursor as (circuit text, scheduled_at timestamptz, id bigint);
alter table public.giftcard_ticks
  add column scanned_at timestamptz,
  add column cursors public.giftcard_cursor[] not null default '{}';
comment on column public.giftcard_ticks.scanned_at is 'When it last looked at all queues; for a second it goes by what it knows.';
comment on column public.giftcard_ticks.cursors is 'Circuits whose queues had more when it last claimed, in their turn, and where it stands in each.';

drop trigger giftcard_jobs_payload_is_not_too_deep on public.giftcard_jobs;
create trigger giftcard_jobs_payload_is_not_too_deep before insert on public.giftcard_jobs
  for each row when (new.payload @? '$.**{100}') execute function public.giftcard_refuse_deep_payload();
-- After, not before: a trigger before an update locks each row anew, also where the payload is not set.
create trigger giftcard_jobs_new_payload_is_not_too_deep after update of payload on public.giftcard_jobs
  for each row when (new.payload @? '$.**{100}') execute function public.giftcard_refuse_deep_payload();

-- A hand-run UPDATE takes a running job away from its worker, whose settle will count no more: its run is kept here. One that makes it
-- running again gives it back: the settle will write the line. Claim and settle change lease_id, so the condition is false for them. It is
-- short because Postgres reads it anew in every statement that sets a status.
create or replace function public.giftcard_keep_run_taken_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if new.status = 'running' then
    delete from public.giftcard_job_history where job_id = new.id and run_no = new.run_no and lease_id is null;
    return null;
  elsif old.status <> 'running' then
    return null;
  end if;
  insert into public.giftcard_job_history
    (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, error, next_run_at)
  values (old.id, old.run_no, old.attempts, old.stage, 'INTERRUPTED', old.scheduled_at, coalesce(old.locked_at, clock_timestamp()),
          clock_timestamp(), old.lock_owner, 'TakenByHand: the row was changed to ' || new.status || ' while it ran',
          case when new.status = 'queued' then new.scheduled_at end)
  on conflict (job_id, run_no) do nothing;
  return null;
end $$;

-- Puts jobs into the queue: an array of up to 1,000 objects with stage and correlation_id and, if wanted, tenant_id, dedup_key,
-- circuit, trigger_type, payload, context, max_attempts, semantics, ttr_seconds, retry_delays, scheduled_at (with its zone),
-- delay_seconds. Answers [{id, status, created}] in the same order. A job that is there already is answered and not changed;
-- with p_replace, one in error or cancelled is queued again with this payload.
drop function public.giftcard_enqueue;
create function public.giftcard_enqueue(p_jobs jsonb, p_replace boolean default false, p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_count integer;
  v_new bigint[];
  v_answers json;
begin
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'p_jobs');
  end if;
  v_count := jsonb_array_length(p_jobs);
  if v_count = 0 then
    return '[]';
  elsif v_count > 1000 then
    perform public.giftcard_refuse('GC400', format('%s jobs are too many for one call: send at most 1000', v_count), 'p_jobs');
  elsif p_jobs @? '$[*] ? (exists(@.ttr_seconds) && @.ttr_seconds == null)' then
    perform public.giftcard_refuse('GC400', 'ttr_seconds must be a positive number of seconds, not null', 'ttr_seconds');
  elsif p_jobs @? '$[*].scheduled_at ? (@.type() != "null" && (@.type() != "string" || !(@ like_regex
      "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$" flag "i")))' then
    perform public.giftcard_refuse('GC400', 'scheduled_at must be a time with its zone, like 2026-01-31T12:00:00Z', 'scheduled_at');
  end if;

  with inserted as (
    insert into public.giftcard_jobs
      (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, payload, context, max_attempts, semantics,
       ttr_seconds, retry_delays, scheduled_at, created_at, updated_at)
    select coalesce(j.tenant_id, 'default'), j.correlation_id, j.stage, coalesce(j.dedup_key, ''), coalesce(j.circuit, j.stage),
           coalesce(j.trigger_type, 'sql'), coalesce(j.payload, '{}'), coalesce(j.context, '{}'), j.max_attempts,
           coalesce(j.semantics, 'at_least_once'), coalesce(j.ttr_seconds, 60), j.retry_delays,
           coalesce(j.scheduled_at, v_now) + make_interval(secs => coalesce(j.delay_seconds, 0)), v_now, v_now
    from jsonb_to_recordset(p_jobs) as j(
      tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text, payload jsonb,
      context jsonb, max_attempts integer, semantics text, ttr_seconds integer, retry_delays double precision[],
      scheduled_at timestamptz, delay_seconds double precision)
    on conflict on constraint giftcard_jobs_flow_key do nothing
    returning id)
  select array_agg(id), json_agg(json_build_object('id', id, 'status', 'queued', 'created', true)) into v_new, v_answers from inserted;

  if cardinality(v_new) = v_count then
    return v_answers;
  end if;
  -- Some were there already: a new statement, so that what another transaction has just committed is seen.
  select json_agg(json_build_object('id', j.id, 'status', j.status, 'created', j.id = any (coalesce(v_new, '{}'))) order by e.n)
    into v_answers
    from jsonb_array_elements(p_jobs) with ordinality e(job, n)
    left join public.giftcard_jobs j
      on j.tenant_id = coalesce(e.job ->> 'tenant_id', 'default') and j.correlation_id = e.job ->> 'correlation_id'
     and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '');
  if p_replace then
    return (
      select json_agg(
        case when (a.answer ->> 'created')::boolean or a.answer ->> 'status' not in ('error', 'cancelled') then a.answer::jsonb
             else public.giftcard_requeue((a.answer ->> 'id')::bigint, p_jobs -> (a.n - 1)::integer -> 'payload', false,
                                          p_jobs -> (a.n - 1)::integer ->> 'circuit', p_now)
                  || '{"created": false}' end order by a.n)
      from json_array_elements(v_answers) with ordinality a(answer, n));
  end if;
  return v_answers;
end $$;

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
  v_ended bigint[] := '{}';      -- runs taken over
  v_ids bigint[] := '{}';        -- jobs claimed
  v_open public.giftcard_cursor[];  -- circuits with a due job, in their turn
  v_again public.giftcard_cursor[];
  v_half_open text[] := '{}';
  v_from text[] := '{}';
  q public.giftcard_cursor;
  v_got bigint[];
  v_got_at timestamptz;          -- the time of the last of them
  v_share integer;
  v_left integer := p_limit;
  v_next timestamptz;
  v_circuit text;
  v_capacity jsonb := '{}';          -- what limited stages may still begin
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
           lease_expires_at = p_now + make_interval(secs => 10 + coalesce(nullif(ttr_seconds, 60), (t.stages ->> stage)::integer, 60)),
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
    if t.only_stage is null and t.only_job_id is null and t.code_version >= 2 then
      v_next := least(v_next, public.giftcard_next_schedule_at(p_now));
    end if;
    next_due_at := public.giftcard_next_due(v_next, v_from, p_now);
  end if;
end $$;

-- Takes for a tick that has settled nothing in this call. The lock: a claim that is repeated waits for the first to end.
create or replace function public.giftcard_claim(
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

-- Writes the outcomes of runs. p_results: an array of {id, lease_id, outcome: complete|retry|error|snooze|release} and, as the
-- outcome needs it, delay (seconds), error (text), revive (seconds; absent: never), context (merged), next (jobs to enqueue in
-- this transaction: same tenant and flow, context passed on), interrupted (true for a run taken over), detail (kept with the run),
-- trips (the threshold of its circuit, when this failure counts towards it). Complete counts as a success by itself.
-- settled: [{id, settled: 'settled'|'lease_lost', status, next_run_at}]; opened, closed: circuits; sums: how many by outcome.
create or replace function public.giftcard_settle(
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
  -- A variable, not a literal: with one, the planner may take the index of running rows for the few ids, and read all of it.
  v_running constant text := 'running';
begin
  if p_results is null or jsonb_typeof(p_results) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_results must be an array of results', 'p_results');
  end if;
  select array_agg(id), case when min(lease_id) = max(lease_id) and count(lease_id) = count(*) then min(lease_id) end::uuid,
         array_agg(id) filter (where outcome = 'complete'),
         array_agg(id) filter (where outcome in ('retry', 'snooze', 'release', 'error'))
    into v_ids, v_lease_id, v_complete, v_unfinished
    from jsonb_to_recordset(p_results) as r(id bigint, lease_id text, outcome text);
  if coalesce(cardinality(v_complete), 0) + coalesce(cardinality(v_unfinished), 0) < jsonb_array_length(p_results) then
    perform public.giftcard_refuse('GC400', 'each outcome must be complete, retry, error, snooze or release', 'outcome');
  end if;
  if v_contexts or v_next or v_details or v_lease_id is null or v_unfinished is not null then
    v_by_id := public.giftcard_results_by_id(p_results);
  end if;

  -- The run's line of history is written from the row that was just changed, in the same statement.
  if v_complete is not null then
    with done as (
      update public.giftcard_jobs
         set status = 'completed', last_error = null,
             context = case when v_contexts then context || coalesce(v_by_id -> id::text -> 'context', '{}') else context end,
             lease_id = null, lease_expires_at = null, finished_at = v_now, updated_at = v_now
       where id = any (v_complete) and status = v_running and lease_id = coalesce(v_lease_id, (v_by_id -> id::text ->> 'lease_id')::uuid)
      returning id, run_no, attempts, stage, scheduled_at, locked_at, lock_owner), kept as (
      insert into public.giftcard_job_history
        (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
      select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, locked_at, v_now, lock_owner,
             coalesce(v_lease_id, (v_by_id -> id::text ->> 'lease_id')::uuid), case when v_details then v_by_id -> id::text -> 'detail' end
        from done
      returning job_id)
    select array_agg(job_id), json_agg(json_build_object('id', job_id, 'status', 'completed', 'settled', 'settled', 'next_run_at', null))
      into v_done, settled from kept;
  end if;
  sums := jsonb_build_object('completed', coalesce(cardinality(v_done), 0));
  if v_unfinished is not null then
    v_unfinished := public.giftcard_settle_unfinished(v_unfinished, v_by_id, v_now);
    v_done := v_done || v_unfinished;
    sums := sums || (
      select jsonb_build_object(
          'retried', count(*) filter (where r ->> 'outcome' = 'retry'), 'errored', count(*) filter (where r ->> 'outcome' = 'error'),
          'snoozed', count(*) filter (where r ->> 'outcome' = 'snooze'), 'released', count(*) filter (where r ->> 'outcome' = 'release'),
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
                                  where h.job_id = j.id and h.lease_id = (v_by_id -> j.id::text ->> 'lease_id')::uuid limit 1),
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

-- The schema's version, and the oldest version of the code that it still serves. Stable, not immutable: an immutable one is folded into
-- prepared plans, which then answer without asking who may call it.
create or replace function public.giftcard_schema_version() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select '{"version": 3, "oldest_code": 1}'::jsonb
$$;

-- Schedules that a tick shall plan now; null: none. A tick for a single stage or job plans nothing, nor does one of code that knows no
-- schedules.
drop function public.giftcard_schedules_for;
create function public.giftcard_schedules_for(p_tick_id bigint, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if not exists (select from public.giftcard_schedules where check_at is not null and check_at <= p_now) then
    return null;
  end if;
  return (select public.giftcard_due_schedules(100, p_now) from public.giftcard_ticks
           where id = p_tick_id and only_stage is null and only_job_id is null and code_version >= 2);
end $$;

-- Writes a tick down, revives, claims. p_key: made by the caller, so that a begin that is repeated finds its tick and the same
-- leases. A second delivery of an execution id does no work while the first is live or ended well.
-- p_code_version, p_oldest_schema: what the caller is, and the oldest schema that will do for it (null: any). GC426 where they do not fit.
-- p_stages: {"email": 60}: what this code knows and can run, with each ttr. p_limits: {"payment": 2}: runs at once in the whole fleet.
-- p_linger_seconds: how long it may wait for work. schedules: those that are due, for the caller to plan (and then to advance).
-- chores: what it shall see to when its jobs are done.
-- Answers {tick_id, duplicate, paused, revived, jobs, next_due_at, next_due_in (seconds), stopped_because (null: it goes on), schedules,
-- chores}.
create or replace function public.giftcard_begin_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_limit integer, p_live_seconds double precision, p_code_version integer,
  p_linger_seconds double precision default 0, p_execution_id text default null, p_only_stage text default null,
  p_only_job_id bigint default null, p_limits jsonb default '{}', p_oldest_schema integer default null, p_now timestamptz default null)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_schema jsonb := public.giftcard_schema_version();
  v_id bigint;
  v_duplicate boolean := false;
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  c record;
begin
  if p_code_version < (v_schema ->> 'oldest_code')::integer then
    perform public.giftcard_refuse('GC426', format(
      'the database is at schema %s, which serves code from %s on; this code is %s: deploy newer code',
      v_schema ->> 'version', v_schema ->> 'oldest_code', p_code_version));
  end if;
  if (v_schema ->> 'version')::integer < p_oldest_schema then
    perform public.giftcard_refuse('GC426', format(
      'this code needs schema %s or a later one, and the database is at %s: run the migrations', p_oldest_schema, v_schema ->> 'version'));
  end if;
  perform pg_advisory_xact_lock(hashtextextended(p_key::text, 0));
  select id, revived, stopped_because into v_id, v_revived, v_stopped_because from public.giftcard_ticks where key = p_key;
  if v_stopped_because is not null then
    return public.giftcard_ended_tick(v_id, v_stopped_because);
  elsif v_id is null then
    if p_execution_id is not null then
      perform pg_advisory_xact_lock(hashtextextended('execution ' || p_execution_id, 0));
      v_duplicate := exists (
        select from public.giftcard_ticks
         where execution_id = p_execution_id and stopped_because is distinct from 'duplicate' and (ended_at is not null or live_until > v_now));
    end if;
    insert into public.giftcard_ticks
      (key, owner, source, execution_id, started_at, live_until, ended_at, stopped_because, stages, limits, only_stage, only_job_id, code_version)
    values (p_key, p_owner, p_source, p_execution_id, v_now, v_now + make_interval(secs => p_live_seconds),
            case when v_duplicate then v_now end, case when v_duplicate then 'duplicate' end, p_stages, p_limits, p_only_stage, p_only_job_id, p_code_version)
    returning id into v_id;
    if v_duplicate then
      return public.giftcard_ended_tick(v_id, 'duplicate');
    end if;
    v_revived := public.giftcard_revive(100, p_now);
    if v_revived > 0 then
      update public.giftcard_ticks set revived = v_revived where id = v_id;
    end if;
  end if;
  c := public.giftcard_claim(v_id, p_key, p_limit, p_now);
  -- infinity cannot be subtracted before PostgreSQL 17, and is never due
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now) end;
  v_schedules := public.giftcard_schedules_for(v_id, v_now);
  if c.claimed = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(v_id, c.paused, v_next_due_in, null, p_linger_seconds, v_now);
  end if;
  return json_build_object('tick_id', v_id, 'duplicate', false, 'paused', c.paused, 'revived', v_revived, 'jobs', c.jobs,
                           'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in, 'stopped_because', v_stopped_because,
                           'schedules', coalesce(v_schedules, '[]'), 'maintenance', public.giftcard_due_maintenance(v_now));
end $$;

-- Settles what has finished, claims up to p_limit more, and ends the tick when nothing runs (p_busy: handlers still running here)
-- and there is nothing to wait for, or when the caller says why to stop (p_stop: limit, budget, shutdown). Repeating it is harmless.
-- Answers {settled, opened, closed, revived, jobs, paused, next_due_at, next_due_in, stopped_because, schedules}.
create or replace function public.giftcard_advance_tick(
  p_tick_id bigint, p_claim_key uuid, p_results jsonb, p_limit integer, p_busy integer, p_linger_seconds double precision default 0,
  p_stop text default null, p_cooldown_seconds double precision default 60, p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  v_scheduled boolean := true;  -- perhaps: a look asks
  s record;
  r record;
  c record;
begin
  if p_results <> '[]' then
    s := public.giftcard_settle(p_results, p_cooldown_seconds, p_now);
    -- All in one: it counts, keeps a repeated call waiting until the first has ended, and reads what comes next has to know.
    update public.giftcard_ticks t
       set completed = completed + (s.sums ->> 'completed')::integer, retried = retried + coalesce((s.sums ->> 'retried')::integer, 0),
           errored = errored + coalesce((s.sums ->> 'errored')::integer, 0), snoozed = snoozed + coalesce((s.sums ->> 'snoozed')::integer, 0),
           released = released + coalesce((s.sums ->> 'released')::integer, 0), interrupted = interrupted + coalesce((s.sums ->> 'interrupted')::integer, 0),
           lease_lost = lease_lost + (s.sums ->> 'lease_lost')::integer
     where t.id = p_tick_id
    returning t as tick, not exists (select from public.giftcard_stages where paused_at is not null)
                         and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as calm,
              exists (select from public.giftcard_schedules where check_at is not null and check_at <= v_now) as scheduled into r;
    if not found then
      perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
    end if;
    v_scheduled := r.scheduled;
  else
    select '[]'::json as settled, '{}'::text[] as opened, '{}'::text[] as closed into s;
    -- A look: this tick waits for work, and a revival is work.
    v_revived := public.giftcard_revive(100, p_now);
    if v_revived > 0 then
      update public.giftcard_ticks set revived = revived + v_revived where id = p_tick_id;
    end if;
  end if;
  if v_scheduled and p_stop is null then
    v_schedules := public.giftcard_schedules_for(p_tick_id, v_now);
  end if;
  if p_limit <= 0 and p_busy > 0 then
    select '[]'::json as jobs, 0 as claimed, false as paused, null::timestamptz as next_due_at into c;
  elsif p_results <> '[]' then
    -- By a later clock than the settle's: what is claimed now was claimed after each circuit that has just changed.
    c := public.giftcard_claim_for(r.tick, r.calm, p_claim_key, p_limit, coalesce(p_now, clock_timestamp()));
  else
    c := public.giftcard_claim(p_tick_id, p_claim_key, p_limit, p_now);
  end if;
  -- infinity cannot be subtracted before PostgreSQL 17, and is never due
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now) end;
  if c.claimed = 0 and p_busy = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(p_tick_id, c.paused, v_next_due_in, p_stop, p_linger_seconds, v_now);
  end if;
  return json_build_object('settled', s.settled, 'opened', s.opened, 'closed', s.closed, 'revived', v_revived, 'jobs', c.jobs, 'paused', c.paused,
                           'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in, 'stopped_because', v_stopped_because,
                           'schedules', coalesce(v_schedules, '[]'));
end $$;

-- Compares what is wrong with what was told, and answers what is to be told now: [{condition, kind: 'raised'|'repeated'|'resolved', since, detail}].
-- Of two ticks at once one gets it, for a minute: giftcard_record_notifications says that it was told, else the next check brings it again.
-- Dead letters: only those that no alert has told of, at most once an hour; again after p_repeat_hours while any is left.
create or replace function public.giftcard_check_alerts(
  p_stages jsonb, p_late_seconds double precision default 900, p_repeat_hours double precision default 24, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_conditions text[];
  v_due jsonb;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  with found as (
    insert into public.giftcard_alerts (condition, since, detail)
    select t.condition, t.since, t.detail from public.giftcard_active_conditions(p_stages, make_interval(secs => p_late_seconds), v_now) t
    on conflict (condition) do update set detail = excluded.detail, resolved_at = null
    returning condition)
  select coalesce(array_agg(condition), '{}') into v_conditions from found;
  -- What ended before anybody was told of it is not worth a word.
  delete from public.giftcard_alerts where notified_at is null and condition <> all (v_conditions);
  update public.giftcard_alerts set resolved_at = v_now where resolved_at is null and condition <> all (v_conditions);
  with due as (
    update public.giftcard_alerts a set sending_until = v_now + interval '1 minute'
     where (a.sending_until is null or a.sending_until <= v_now)
       and (a.notified_at is null or a.resolved_at is not null or a.notified_at <= v_now - make_interval(secs => p_repeat_hours * 3600)
            or a.condition = 'dead_letters' and a.notified_at <= v_now - interval '1 hour' and (a.detail ->> 'newest')::timestamptz > a.notified_through)
    returning a.*)
  select coalesce(jsonb_agg(jsonb_build_object(
      'condition', d.condition, 'since', d.since, 'detail', d.detail,
      'kind', case when d.resolved_at is not null then 'resolved' when d.notified_at is null then 'raised' else 'repeated' end) order by d.condition), '[]')
    into v_due from due d;
  return v_due;
end $$;

-- Who may do what: the service role everything, nobody else anything. Supabase grants new tables and functions to its web roles by
-- default, so each is taken back by name of its kind. Later migrations repeat this for what they add; a test reads the catalog.

do $$
declare
  v_object record;
  v_web_roles text := (select string_agg(quote_ident(rolname), ', ') from pg_roles where rolname in ('anon', 'authenticated'));
  v_service boolean := exists (select from pg_roles where rolname = 'service_role');
begin
  for v_object in
    select c.oid::regclass as name from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'S') and c.relname like 'giftcard\_%'
  loop
    if (select relkind from pg_class where oid = v_object.name) = 'r' then
      execute format('alter table %s enable row level security', v_object.name);
      execute format('revoke all on table %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('grant select, insert, update, delete on table %s to service_role', v_object.name);
      end if;
    else
      execute format('revoke all on sequence %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('grant usage, select on sequence %s to service_role', v_object.name);
      end if;
    end if;
  end loop;
  for v_object in
    select p.oid::regprocedure as name from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\_%'
  loop
    execute format('revoke all on function %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
    if v_service then
      execute format('grant execute on function %s to service_role', v_object.name);
    end if;
  end loop;
end $$;

-- What is new is known to PostgREST at once, also where no event trigger of Supabase tells it.
notify pgrst, 'reload schema';
