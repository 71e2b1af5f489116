-- Manage schedules: the operators' actions.

-- Record an act on a schedule.
create function public.giftcard_record_schedule(
  s public.giftcard_schedules, p_by text, p_action text, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, s.tenant_id, p_action, 'schedule ' || s.id, jsonb_build_object('name', s.name) || p_details, p_now);
end $$;

-- Record the update of a schedule, with the names of the fields that it changed. None changed: it is no act.
create function public.giftcard_record_schedule_update(
  p_old jsonb, s public.giftcard_schedules, p_by text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed jsonb := public.giftcard_changed_fields(p_old, to_jsonb(s))
                     - '{version,updated_at,next_at,check_at}'::text[];
begin
  if v_changed <> '[]' then
    perform public.giftcard_record_schedule(
      s, p_by, 'update_schedule', jsonb_build_object('changed', v_changed), p_now);
  end if;
end $$;

-- Create a schedule, or update one (p_id) that is still at p_version. p_schedule holds all columns that a caller may
-- set; without a payload an update keeps the stored one. p_next_at is its next occurrence (null: none). GC409 for a
-- name that another has, and for another version.
create function public.giftcard_save_schedule(
  p_schedule jsonb, p_next_at timestamptz, p_id bigint default null, p_version integer default null,
  p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  n public.giftcard_schedules := jsonb_populate_record(null::public.giftcard_schedules, p_schedule);
  s public.giftcard_schedules;
  v_old jsonb;
begin
  if n.payload @? '$.**{100}' then
    perform public.giftcard_refuse('GC400', 'the payload is nested too deeply: 100 levels are allowed', 'payload');
  end if;
  perform set_config('giftcard.writer', 'schedule', true);
  if p_id is null then
    insert into public.giftcard_schedules
      (tenant_id, name, schedule, timezone, stage, payload, source, semantics, is_recurring, max_attempts, ttr_seconds,
       retry_delays, priority, missed_policy,
       catch_up_seconds, missed_cap, overlap_policy, pause_after_failures, next_at, check_at, created_at, updated_at)
    values (n.tenant_id, n.name, n.schedule, n.timezone, n.stage, n.payload, 'app', n.semantics, n.is_recurring,
            n.max_attempts, n.ttr_seconds,
            n.retry_delays, coalesce(n.priority, 0), n.missed_policy, n.catch_up_seconds, n.missed_cap,
            n.overlap_policy, n.pause_after_failures, p_next_at, p_next_at,
            v_now, v_now)
    returning * into s;
    perform public.giftcard_record_schedule(s, p_by, 'create_schedule', '{}', v_now);
  else
    select to_jsonb(x) into v_old from public.giftcard_schedules x
     where id = p_id and version = p_version and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
    if not found then
      perform public.giftcard_show_schedule(p_id, p_tenant_id);  -- GC404 for one that is gone
      perform public.giftcard_refuse(
        'GC409', format('schedule %s has changed meanwhile: read it and try again', p_id), 'schedule_id');
    end if;
    update public.giftcard_schedules
       set name = n.name, schedule = n.schedule, timezone = n.timezone, stage = n.stage,
           payload = coalesce(n.payload, payload), source = case when n.payload is null then source else 'app' end,
           semantics = n.semantics,
           is_recurring = n.is_recurring, max_attempts = n.max_attempts, ttr_seconds = n.ttr_seconds,
           retry_delays = n.retry_delays, priority = coalesce(n.priority, 0),
           missed_policy = n.missed_policy, catch_up_seconds = n.catch_up_seconds, missed_cap = n.missed_cap,
           overlap_policy = n.overlap_policy,
           pause_after_failures = n.pause_after_failures, next_at = p_next_at, check_at = coalesce(p_next_at, check_at),
           version = version + 1,
           updated_at = v_now
     where id = p_id returning * into s;
    perform public.giftcard_record_schedule_update(v_old, s, p_by, v_now);
  end if;
  perform set_config('giftcard.writer', '', true);
  return public.giftcard_schedule_json(s, v_now);
exception when unique_violation then
  raise exception 'tenant % has another schedule of the name %', n.tenant_id,
  n.name using errcode = 'GC409', detail = 'name';
end $$;

-- Delete a schedule. Its jobs go on. GC404 for none.
create function public.giftcard_delete_schedule(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  delete from public.giftcard_schedules
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id) returning * into s;
  if not found then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', p_id), 'schedule_id');
  end if;
  perform public.giftcard_record_schedule(s, p_by, 'delete_schedule', '{}', p_now);
  return jsonb_build_object('id', p_id, 'deleted', true);
end $$;

-- Pause a schedule: no occurrences until it is resumed. Its jobs go on. p_paused_by: the name that is shown; null:
-- p_by. Paused once more with this name and reason, it stays as it is.
create function public.giftcard_pause_schedule(
  p_id bigint, p_paused_by text default null, p_reason text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_paused_by, ''), public.giftcard_actor(p_by));
  s public.giftcard_schedules;
begin
  update public.giftcard_schedules
     set paused_at = coalesce(paused_at, v_now), paused_by = v_name, pause_reason = p_reason, next_at = null,
         version = version + 1,
         -- a schedule that runs once still waits for the end of its one job
         check_at = case when not is_recurring and last_at is not null then check_at end
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id)
     and (paused_at is null or (paused_by, pause_reason) is distinct from (v_name, p_reason))
  returning * into s;
  if found then
    perform public.giftcard_record_schedule(s, p_by, 'pause_schedule', jsonb_build_object(
      'paused_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  end if;
  return public.giftcard_show_schedule(p_id, p_tenant_id, v_now);
end $$;

-- Resume a schedule from p_next_at on: occurrences of the pause are not made up for. GC409 for one that is not paused
-- or not at p_version.
create function public.giftcard_resume_schedule(
  p_id bigint, p_version integer, p_next_at timestamptz, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  update public.giftcard_schedules
     set paused_at = null, paused_by = null, pause_reason = null, failures = 0,
         open_jobs = (public.giftcard_schedule_outcomes(open_jobs, is_recurring, failures)).unfinished,
         next_at = p_next_at, check_at = coalesce(p_next_at, check_at), version = version + 1
   where id = p_id and version = p_version and paused_at is not null
     and (p_tenant_id is null or tenant_id = p_tenant_id)
  returning * into s;
  if not found then
    perform public.giftcard_show_schedule(p_id, p_tenant_id);  -- GC404 for one that is gone
    perform public.giftcard_refuse(
      'GC409', format('schedule %s is not paused, or has changed meanwhile', p_id), 'schedule_id');
  end if;
  perform public.giftcard_record_schedule(s, p_by, 'resume_schedule', '{}', p_now);
  return public.giftcard_show_schedule(p_id, p_tenant_id, p_now);
end $$;

-- Enqueue occurrences of a schedule on request: p_plan is one of those that giftcard_enqueue_occurrences takes. Return
-- what that returns. GC404 for no schedule.
create function public.giftcard_run_schedule(
  p_plan jsonb, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_id bigint := (p_plan ->> 'id')::bigint;
  v_done jsonb;
  s public.giftcard_schedules;
begin
  select * into s from public.giftcard_schedules
   where id = v_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', v_id), 'schedule_id');
  end if;
  v_done := public.giftcard_enqueue_occurrences(jsonb_build_array(p_plan), p_now);
  if v_done -> 'jobs' <> '[]' then
    perform public.giftcard_record_schedule(
      s, p_by, 'run_schedule', jsonb_build_object('job_id', v_done -> 'jobs' -> 0), p_now);
  end if;
  return v_done;
end $$;
