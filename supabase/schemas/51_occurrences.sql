-- Occurrences: a tick reads the schedules that are due, Python plans, and each plan is applied if its schedule is still
-- as it was read: of two ticks, two clocks or a clock that was set back, one makes the job.

-- Return a schedule with all that Python needs to plan it. now: the database's time. The payload is text: one that
-- Python cannot read stops its own schedule only.
create function public.giftcard_due_schedule(s public.giftcard_schedules, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
declare
  o record := public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures);
begin
  return json_build_object(
    'id', s.id, 'version', s.version, 'now', p_now, 'tenant_id', s.tenant_id, 'schedule', s.schedule,
    'timezone', s.timezone,
    'stage', s.stage, 'payload_json', s.payload::text, 'semantics', s.semantics, 'is_recurring', s.is_recurring,
    'max_attempts', s.max_attempts,
    'ttr_seconds', s.ttr_seconds, 'retry_delays', s.retry_delays, 'priority', s.priority,
    'next_at', s.next_at, 'last_at', s.last_at,
    'created_at', s.created_at,
    'missed_policy', s.missed_policy, 'catch_up_seconds', s.catch_up_seconds, 'missed_cap', s.missed_cap,
    'overlap_policy', s.overlap_policy, 'pause_after_failures', s.pause_after_failures,
    'failures', o.failures, 'unfinished', cardinality(o.unfinished), 'busy_since', o.busy_since,
    'busy_until', o.busy_until);
end $$;

-- Return the schedules to plan now, the longest due first, as giftcard_due_schedule returns each.
create function public.giftcard_due_schedules(p_limit integer default 100, p_now timestamptz default null) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_skipped bigint[] := public.giftcard_skipped('schedule', v_now);
begin
  return (
    select coalesce(json_agg(public.giftcard_due_schedule(s, v_now) order by s.check_at, s.id), '[]')
      from (select * from public.giftcard_schedules
             where check_at is not null and check_at <= v_now and id <> all (v_skipped)
             order by check_at, id limit least(p_limit, 1000)) s);
end $$;

-- Return when the next occurrence is due; null: none. What waits for the end of an earlier job is checked later. A
-- schedule that ticks pass over counts for nothing: what is due already may be one.
create function public.giftcard_next_schedule_at(p_now timestamptz default null) returns timestamptz
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_at timestamptz := (
    select check_at from public.giftcard_schedules where check_at is not null and next_at is not null
     order by check_at limit 1);
  v_skipped bigint[];
begin
  if v_at <= v_now then
    v_skipped := public.giftcard_skipped('schedule', v_now);
    return (select check_at from public.giftcard_schedules
             where check_at is not null and next_at is not null and id <> all (v_skipped) order by check_at limit 1);
  end if;
  return v_at;
end $$;

-- Apply plans; giftcard_enqueue_occurrences has locked their schedules. Return the ids of the new jobs.
create function public.giftcard_apply_plans(p_plans jsonb, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_jobs jsonb;
  v_owners bigint[];  -- the schedule of each job
  v_answers jsonb := '[]'::jsonb;
  v_changed bigint;
begin
  -- The payload as stored, unless a hook has changed it: JSON that went through Python may have lost digits.
  select jsonb_agg(jsonb_build_object('payload', s.payload) || j.job || jsonb_build_object('source', s.source)
                   order by p.n, j.n),
         array_agg(s.id order by p.n, j.n)
    into v_jobs, v_owners
    from jsonb_array_elements(p_plans) with ordinality p(plan, n)
    cross join lateral jsonb_array_elements(p.plan -> 'jobs') with ordinality j(job, n)
    join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint;
  if v_jobs is not null then
    v_answers := public.giftcard_enqueue(v_jobs, p_now => p_now)::jsonb;
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
     set version = case when s.version < 2147483647 then s.version + 1 else 1 end, failures = m.failures,
         open_jobs = m.open_jobs[greatest(1, cardinality(m.open_jobs) - 99):],
         next_at = case when not pauses then (plan ->> 'next_at')::timestamptz end,
         check_at = case when pauses then null
                        when plan ? 'check_in'
                            then p_now + make_interval(secs => (plan ->> 'check_in')::double precision)
                        else (plan ->> 'next_at')::timestamptz end,
         last_at = greatest(s.last_at, (plan ->> 'last_at')::timestamptz),
         last_job_id = coalesce(m.last_job_id, s.last_job_id),
         missed = least(s.missed, 1e15::bigint) + coalesce((plan ->> 'missed')::integer, 0),
         last_missed_at = coalesce((plan ->> 'missed_at')::timestamptz, s.last_missed_at),
         skipped = least(s.skipped, 1e15::bigint) + coalesce((plan ->> 'skipped')::integer, 0),
         last_skipped_at = coalesce((plan ->> 'skipped_at')::timestamptz, s.last_skipped_at),
         paused_at = case when pauses then p_now else s.paused_at end,
         paused_by = case when pauses then 'tick' else s.paused_by end,
         pause_reason = coalesce(plan ->> 'pause', s.pause_reason)
    from moved m
   where s.id = m.id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, jsonb_array_length(p_plans));
  return array(select (j ->> 'id')::bigint from jsonb_array_elements(v_answers) j where (j ->> 'created')::boolean);
end $$;

-- Pause a schedule that work fails on, with the reason. Return whether it is paused: if even that is refused, ticks
-- pass over it for ten minutes.
create function public.giftcard_put_schedule_aside(p_id bigint, p_reason text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_schedules
     set paused_at = p_now, paused_by = 'tick', pause_reason = left(p_reason, 500), next_at = null, check_at = null,
         version = case when version < 2147483647 then version + 1 else 1 end
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
  perform public.giftcard_record_fault('schedule', p_id::text, p_reason, p_now);
  return true;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('schedule', p_id::text, p_reason, p_now, p_now + interval '10 minutes');
  return false;
end $$;

-- Pause the due schedules that cannot be read.
create function public.giftcard_pause_unreadable_schedules(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  for s in select * from public.giftcard_schedules where check_at is not null and check_at <= p_now
            order by check_at, id limit 1000 for update skip locked loop
    begin
      perform public.giftcard_due_schedule(s, p_now);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_put_schedule_aside(
        s.id, 'it cannot be read: ' || public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Apply one plan, or delete its schedule. One that cannot be applied pauses its schedule. Return the ids of the new
-- jobs; the reason of the pause; whether the schedule has moved on.
create function public.giftcard_apply_plan(
  p_plan jsonb, p_now timestamptz, out jobs bigint[], out reason text, out moved boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  moved := true;
  if p_plan ? 'delete' then
    delete from public.giftcard_schedules where id = (p_plan ->> 'id')::bigint;
    get diagnostics v_changed = row_count;
    perform public.giftcard_check_changed(v_changed, 1);
  else
    jobs := public.giftcard_apply_plans(jsonb_build_array(p_plan), p_now);
  end if;
exception when lock_not_available then
  moved := false;  -- someone else holds a job of its own: later
when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  reason := 'its job cannot be stored: ' || public.giftcard_error_text(sqlstate, sqlerrm);
  moved := public.giftcard_put_schedule_aside((p_plan ->> 'id')::bigint, reason, p_now);
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
set lock_timeout = '2s'
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select s.id from jsonb_array_elements(p_planned) p
      join public.giftcard_schedules s on s.id = (p ->> 'id')::bigint and s.version = (p ->> 'version')::integer
     order by s.id for update of s skip locked);
  v_plans jsonb := (
    select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids));
  v_over bigint[] := array(select (p ->> 'id')::bigint from jsonb_array_elements(v_plans) p where p ? 'delete');
  v_paused jsonb := (
    select coalesce(jsonb_agg(jsonb_build_object('id', p -> 'id', 'reason', p -> 'pause')), '[]')
      from jsonb_array_elements(v_plans) p where p ? 'pause');
  v_jobs bigint[] := '{}'::bigint[];
  v_left integer := jsonb_array_length(p_planned) - cardinality(v_ids);
  v_changed bigint;
  v_plan jsonb;
  a record;
begin
  set constraints all immediate;  -- an error at the commit would be no schedule's
  begin
    delete from public.giftcard_schedules where id = any (v_over);
    get diagnostics v_changed = row_count;
    perform public.giftcard_check_changed(v_changed, cardinality(v_over));
    v_jobs := public.giftcard_apply_plans(
      (select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(v_plans) p where not p ? 'delete'), v_now);
  exception when others then
    if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
      raise;
    end if;
    for v_plan in select value from jsonb_array_elements(v_plans) loop
      a := public.giftcard_apply_plan(v_plan, v_now);
      v_jobs := v_jobs || a.jobs;
      v_left := v_left + (not a.moved)::integer;
      if a.reason is not null then
        v_paused := v_paused || jsonb_build_object('id', v_plan -> 'id', 'reason', a.reason);
      end if;
    end loop;
  end;
  return jsonb_build_object('jobs', to_jsonb(v_jobs), 'paused', v_paused, 'deleted', cardinality(v_over),
                            'left', v_left);
end $$;
