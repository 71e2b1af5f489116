-- Manage jobs and stages: the operators' actions.

-- Requeue a job, as giftcard_requeue does. Return its answer, and the names of the payload's fields that changed.
create function public.giftcard_requeue_job(
  p_job_id bigint, p_payload jsonb, p_force boolean, p_circuit text, p_source text, p_tenant_id text,
  p_now timestamptz, out answer jsonb, out changed jsonb)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id, p_tenant_id);
  elsif j.status in ('queued', 'running') then
    perform public.giftcard_refuse('GC409', format('job %s is %s already', p_job_id, j.status), 'status');
  elsif j.status = 'completed' and not coalesce(p_force, false) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: use force to run it again', p_job_id), 'force');
  elsif j.status = 'completed' and public.giftcard_is_webhook(j.stage) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is a webhook that was delivered: it is not sent again', p_job_id), 'force');
  elsif p_payload is distinct from j.payload and p_payload is not null
        and public.giftcard_is_webhook(j.stage) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is a webhook: it is sent as it was written', p_job_id), 'payload');
  elsif p_payload is distinct from j.payload and p_payload is not null and exists (
      select from public.giftcard_effects e
       where e.tenant_id = j.tenant_id and e.correlation_id = j.correlation_id and e.stage = j.stage
         and e.dedup_key = j.dedup_key
         and e.started_at is not null) then
    perform public.giftcard_refuse('GC409', format(
      'job %s has begun an effect outside with its old payload: requeue it as it is, or enqueue a new one', p_job_id),
      'payload');
  end if;
  perform set_config('giftcard.writer', 'requeue', true);
  update public.giftcard_jobs
     set status = 'queued', scheduled_at = v_now, attempts = 0, revivals = 0, last_error = null,
         source = case when p_payload is distinct from payload and p_payload is not null then coalesce(p_source, 'sql')
                       else source end,
         payload = coalesce(p_payload, payload),
         circuit = coalesce(p_circuit, circuit),
         revive_at = null, finished_at = null, cancel_requested_at = null, lease_id = null, lease_expires_at = null,
         updated_at = v_now
   where id = p_job_id;
  perform set_config('giftcard.writer', '', true);
  answer := jsonb_build_object('id', p_job_id, 'status', 'queued', 'was', j.status);
  changed := public.giftcard_changed_fields(j.payload, coalesce(p_payload, j.payload));
end $$;

-- Requeue a job in error or cancelled (with p_force: completed): due now, with a whole new set of attempts. p_payload:
-- a corrected payload (p_circuit: its circuit, p_source: its source; null: sql), refused once the job has begun an
-- external effect, which is bound to the old one. p_reason: why, for the audit. History stays. Return {id, status,
-- was}. GC409 for any other state.
create function public.giftcard_requeue(
  p_job_id bigint, p_payload jsonb default null, p_force boolean default false, p_circuit text default null,
  p_source text default null, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_details jsonb;
  r record := public.giftcard_requeue_job(p_job_id, p_payload, p_force, p_circuit, p_source, p_tenant_id, p_now);
begin
  v_details := jsonb_build_object('was', r.answer -> 'was', 'reason', p_reason);
  if r.changed = '[]' then
    perform public.giftcard_record_jobs(p_by, 'requeue', array[p_job_id], v_details, p_now);
  else
    perform public.giftcard_record_jobs(
      p_by, 'payload', array[p_job_id], v_details || jsonb_build_object('changed', r.changed), p_now);
  end if;
  return r.answer;
end $$;

-- Cancel jobs that are queued or in error, and record the request for running ones. Return how many this changes. The
-- caller holds their rows.
create function public.giftcard_cancel_locked(p_ids bigint[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_requested bigint;
  v_cancelled bigint;
  v_batches bigint[];
begin
  update public.giftcard_jobs set cancel_requested_at = p_now, updated_at = p_now
   where id = any (p_ids) and status = 'running' and cancel_requested_at is null;
  get diagnostics v_requested = row_count;
  with cancelled as (
    update public.giftcard_jobs set status = 'cancelled', revive_at = null, finished_at = p_now, updated_at = p_now
     where id = any (p_ids) and status in ('queued', 'error') returning batch_id)
  select count(*), array_agg(batch_id) filter (where batch_id is not null) into v_cancelled, v_batches from cancelled;
  if v_batches is not null then
    perform public.giftcard_end_batches(v_batches, p_now);
  end if;
  return v_requested + v_cancelled;
end $$;

-- Cancel a job that is queued or in error. For a running one the request is recorded: complete still wins, any other
-- outcome becomes cancelled. p_reason: why, for the audit. Return {id, was, status, cancel_requested}.
create function public.giftcard_cancel(
  p_job_id bigint, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_status text;
begin
  select status into v_status from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id, p_tenant_id);
  elsif v_status = 'completed' then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: there is nothing to cancel', p_job_id), 'status');
  elsif public.giftcard_cancel_locked(array[p_job_id], v_now) > 0 then
    perform public.giftcard_record_jobs(
      p_by, 'cancel', array[p_job_id], jsonb_build_object('was', v_status, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('id', p_job_id, 'was', v_status,
                            'status', case v_status when 'running' then 'running' else 'cancelled' end,
                            'cancel_requested', v_status = 'running');
end $$;

-- Pause a stage, or everything ('*'): its jobs wait and lose no attempt. Runs that have begun end normally.
-- p_paused_by: the name that status shows; null: p_by. Paused once more with this name and reason, it stays as it is.
create function public.giftcard_pause(
  p_stage text, p_paused_by text default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_paused_by, ''), public.giftcard_actor(p_by));
  s public.giftcard_stages;
begin
  if coalesce(p_stage, '') = '' then
    perform public.giftcard_refuse('GC400', 'p_stage (''*'' for all) must be given', 'stage');
  end if;
  insert into public.giftcard_stages as x (stage, paused_at, paused_by, reason)
  values (p_stage, v_now, v_name, p_reason)
  on conflict (stage) do update set
    paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, resumed_at = null,
    resumed_by = null
   where x.paused_at is null or (x.paused_by, x.reason) is distinct from (excluded.paused_by, excluded.reason)
  returning * into s;
  if found then
    perform public.giftcard_record_act(
      p_by, null, 'pause', 'stage ' || p_stage,
      jsonb_build_object('paused_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  else
    select * into s from public.giftcard_stages where stage = p_stage;
  end if;
  return jsonb_build_object(
    'stage', p_stage, 'paused', true, 'paused_at', s.paused_at, 'paused_by', s.paused_by, 'reason', s.reason);
end $$;

-- End a pause. p_resumed_by: the name that is kept; null: p_by. p_reason: why, for the audit. GC404 for a stage that is
-- not paused.
create function public.giftcard_resume(
  p_stage text, p_resumed_by text default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_resumed_by, ''), public.giftcard_actor(p_by));
begin
  update public.giftcard_stages set paused_at = null, resumed_at = v_now, resumed_by = v_name
    where stage = p_stage and paused_at is not null;
  if not found then
    perform public.giftcard_refuse('GC404', format('stage %s is not paused', p_stage), 'stage');
  end if;
  perform public.giftcard_record_act(
    p_by, null, 'resume', 'stage ' || p_stage,
    jsonb_build_object('resumed_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  return jsonb_build_object('stage', p_stage, 'paused', false, 'resumed_at', v_now, 'resumed_by', v_name);
end $$;
