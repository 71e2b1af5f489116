-- Manage jobs and stages: the operators' actions.

-- Requeue a job in error or cancelled (with p_force: completed): due now, with a whole new set of attempts. p_payload:
-- a corrected payload (p_circuit: its circuit, p_source: its source; null: sql), refused once the job has begun an
-- external effect, which is bound to the old one. History stays. Return {id, status, was}. GC409 for any other state.
create function public.giftcard_requeue(
  p_job_id bigint, p_payload jsonb default null, p_force boolean default false, p_circuit text default null,
  p_now timestamptz default null, p_source text default null)
returns jsonb language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs where id = p_job_id for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id);
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
  return jsonb_build_object('id', p_job_id, 'status', 'queued', 'was', j.status);
end $$;

-- Cancel a job that is queued or in error. For a running one the request is recorded: complete still wins, any other
-- outcome becomes cancelled. Return {id, was, status, cancel_requested}.
create function public.giftcard_cancel(p_job_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_status text;
begin
  select status into v_status from public.giftcard_jobs where id = p_job_id for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id);
  elsif v_status = 'completed' then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: there is nothing to cancel', p_job_id), 'status');
  elsif v_status = 'running' then
    update public.giftcard_jobs set cancel_requested_at = v_now, updated_at = v_now where id = p_job_id;
  elsif v_status <> 'cancelled' then
    update public.giftcard_jobs set status = 'cancelled', revive_at = null, finished_at = v_now, updated_at = v_now
      where id = p_job_id;
  end if;
  return jsonb_build_object('id', p_job_id, 'was', v_status,
                            'status', case v_status when 'running' then 'running' else 'cancelled' end,
                            'cancel_requested', v_status = 'running');
end $$;

-- Pause a stage, or everything ('*'): its jobs wait and lose no attempt. Runs that have begun end normally.
create function public.giftcard_pause(
  p_stage text, p_by text, p_reason text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  if coalesce(p_stage, '') = '' or coalesce(p_by, '') = '' then
    perform public.giftcard_refuse(
      'GC400', 'p_stage (''*'' for all) and p_by must be given',
      case when coalesce(p_stage, '') = '' then 'stage' else 'by' end);
  end if;
  insert into public.giftcard_stages (stage, paused_at, paused_by, reason) values (p_stage, v_now, p_by, p_reason)
  on conflict (stage) do update set paused_at = v_now, paused_by = p_by, reason = p_reason, resumed_at = null,
  resumed_by = null;
  return jsonb_build_object(
    'stage', p_stage, 'paused', true, 'paused_at', v_now, 'paused_by', p_by, 'reason', p_reason);
end $$;

-- End a pause. GC404 for a stage that is not paused.
create function public.giftcard_resume(p_stage text, p_by text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_stages set paused_at = null, resumed_at = v_now, resumed_by = p_by
    where stage = p_stage and paused_at is not null;
  if not found then
    perform public.giftcard_refuse('GC404', format('stage %s is not paused', p_stage), 'stage');
  end if;
  return jsonb_build_object('stage', p_stage, 'paused', false, 'resumed_at', v_now, 'resumed_by', p_by);
end $$;
