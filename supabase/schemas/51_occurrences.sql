-- Occurrences: a tick reads the schedules that are due, Python plans, and each plan is applied if its schedule is still
-- as it was read: of two ticks, two clocks or a clock that was set back, one makes the job.

-- Return the schedules to plan now, the longest due first, with all that Python needs. now: the database's time.
create function public.giftcard_due_schedules(p_limit integer default 100, p_now timestamptz default null) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select coalesce(json_agg(json_build_object(
        'id', s.id, 'version', s.version, 'now', v_now, 'tenant_id', s.tenant_id, 'schedule', s.schedule,
        'timezone', s.timezone,
        'stage', s.stage, 'payload', s.payload, 'semantics', s.semantics, 'is_recurring', s.is_recurring,
        'max_attempts', s.max_attempts,
        'ttr_seconds', s.ttr_seconds, 'retry_delays', s.retry_delays, 'next_at', s.next_at, 'last_at', s.last_at,
        'missed_policy', s.missed_policy, 'catch_up_seconds', s.catch_up_seconds, 'missed_cap', s.missed_cap,
        'overlap_policy', s.overlap_policy, 'pause_after_failures', s.pause_after_failures,
        'failures', o.failures, 'unfinished', cardinality(o.unfinished), 'busy_since', o.busy_since,
        'busy_until', o.busy_until)), '[]')
      from (select * from public.giftcard_schedules where check_at is not null and check_at <= v_now
             order by check_at, id limit least(p_limit, 1000)) s
     cross join lateral public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures) o);
end $$;

-- Return when the next occurrence is due; null: none. What waits for the end of an earlier job is checked later.
create function public.giftcard_next_schedule_at() returns timestamptz
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off as $$
begin
  return (select check_at from public.giftcard_schedules where check_at is not null and next_at is not null
          order by check_at limit 1);
end $$;

-- Apply plans; giftcard_enqueue_occurrences has locked their schedules. Return the ids of the new jobs.
create function public.giftcard_apply_plans(p_plans jsonb, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_jobs jsonb;
  v_owners bigint[];  -- the schedule of each job
  v_answers jsonb := '[]'::jsonb;
begin
  -- The payload as stored, unless a hook has changed it: JSON that went through Python may have lost digits.
  select jsonb_agg(jsonb_build_object('payload', s.payload) || j.job order by p.n, j.n),
         array_agg(s.id order by p.n, j.n)
    into v_jobs, v_owners
    from jsonb_array_elements(p_plans) with ordinality p(plan, n)
    cross join lateral jsonb_array_elements(p.plan -> 'jobs') with ordinality j(job, n)
    join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint;
  if v_jobs is not null then
    v_answers := public.giftcard_enqueue(v_jobs, false, p_now)::jsonb;
  end if;
  with made as (
    select v_owners[e.n] as schedule_id, array_agg((e.job ->> 'id')::bigint order by e.n) as ids,
           array_agg((e.job ->> 'id')::bigint order by e.n)
             filter (where e.job ->> 'status' in ('queued', 'running')) as unfinished
      from jsonb_array_elements(v_answers) with ordinality e(job, n) group by v_owners[e.n]), moved as (
    select s.id, p.plan, p.plan ? 'pause' as pauses, o.failures,
           o.unfinished || coalesce(m.unfinished, '{}') as open_jobs,
           m.ids[cardinality(m.ids)] as last_job_id
      from jsonb_array_elements(p_plans) p(plan)
      join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint
     cross join lateral public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures) o
      left join made m on m.schedule_id = s.id)
  update public.giftcard_schedules s
     set version = s.version + 1, failures = m.failures,
         open_jobs = m.open_jobs[greatest(1, cardinality(m.open_jobs) - 99):],
         next_at = case when not pauses then (plan ->> 'next_at')::timestamptz end,
         check_at = case when pauses then null
                        when plan ? 'check_in'
                            then p_now + make_interval(secs => (plan ->> 'check_in')::double precision)
                        else (plan ->> 'next_at')::timestamptz end,
         last_at = greatest(s.last_at, (plan ->> 'last_at')::timestamptz),
         last_job_id = coalesce(m.last_job_id, s.last_job_id),
         missed = s.missed + coalesce((plan ->> 'missed')::integer, 0),
         last_missed_at = coalesce((plan ->> 'missed_at')::timestamptz, s.last_missed_at),
         skipped = s.skipped + coalesce((plan ->> 'skipped')::integer, 0),
         last_skipped_at = coalesce((plan ->> 'skipped_at')::timestamptz, s.last_skipped_at),
         paused_at = case when pauses then p_now else s.paused_at end,
         paused_by = case when pauses then 'tick' else s.paused_by end,
         pause_reason = coalesce(plan ->> 'pause', s.pause_reason)
    from moved m
   where s.id = m.id;
  return array(select (j ->> 'id')::bigint from jsonb_array_elements(v_answers) j where (j ->> 'created')::boolean);
end $$;

-- Apply plans, in one transaction. Each: {id, version, and one of
--   delete: true                   it ran once and is over
--   pause: reason                  it is paused
--   next_at (null: none), and optionally jobs (as giftcard_enqueue takes them), last_at, check_in (seconds: check it
--                                  then, not at next_at), missed, missed_at, skipped, skipped_at}; up to 1,000 jobs.
-- A schedule that has changed since it was read is left alone, and so is one that another tick works on. One whose job
-- cannot be stored is paused with the reason, and stops no other.
-- Return {jobs: ids of the new ones, paused: [{id, reason}], deleted, left: how many}.
create function public.giftcard_enqueue_occurrences(p_planned jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select s.id from jsonb_array_elements(p_planned) p
      join public.giftcard_schedules s on s.id = (p ->> 'id')::bigint and s.version = (p ->> 'version')::integer
     order by s.id for update of s skip locked);
  v_plans jsonb := (
    select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids) and not p ? 'delete');
  v_over bigint[] := array(
    select (p ->> 'id')::bigint from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids) and p ? 'delete');
  v_paused jsonb := (
    select coalesce(jsonb_agg(jsonb_build_object('id', p -> 'id', 'reason', p -> 'pause')), '[]')
      from jsonb_array_elements(v_plans) p where p ? 'pause');
  v_jobs bigint[] := '{}'::bigint[];
  v_plan jsonb;
begin
  delete from public.giftcard_schedules where id = any (v_over);
  begin
    v_jobs := public.giftcard_apply_plans(v_plans, v_now);
  exception when data_exception or integrity_constraint_violation or raise_exception or sqlstate 'GC400' then
    -- One job cannot be stored: each schedule is planned by itself, so that the others are not affected.
    for v_plan in select value from jsonb_array_elements(v_plans) loop
      begin
        v_jobs := v_jobs || public.giftcard_apply_plans(jsonb_build_array(v_plan), v_now);
      exception when data_exception or integrity_constraint_violation or raise_exception or sqlstate 'GC400' then
        v_plan := jsonb_build_object('id', v_plan -> 'id', 'pause', 'its job cannot be stored: ' || left(sqlerrm, 300));
        perform public.giftcard_apply_plans(jsonb_build_array(v_plan), v_now);
        v_paused := v_paused || jsonb_build_object('id', v_plan -> 'id', 'reason', v_plan -> 'pause');
      end;
    end loop;
  end;
  return jsonb_build_object('jobs', to_jsonb(v_jobs), 'paused', v_paused, 'deleted', cardinality(v_over),
                            'left', jsonb_array_length(p_planned) - cardinality(v_ids));
end $$;
