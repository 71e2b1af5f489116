-- The runs of a job.

-- Return the frames of a run as the API shows them, whatever was written by hand: [{file, line, function, own, raised,
-- omitted}].
create function public.giftcard_frames_json(p_frames jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'file', left(f ->> 'file', 200), 'function', left(f ->> 'function', 200), 'raised', left(f ->> 'raised', 200),
        'line', case when f ->> 'line' ~ '^[0-9]{1,9}$' then (f ->> 'line')::integer else 0 end,
        'omitted', case when f ->> 'omitted' ~ '^[0-9]{1,9}$' then (f ->> 'omitted')::integer else 0 end,
        'own', coalesce(f -> 'own' = 'true', false))), '[]')
      from (select * from jsonb_path_query(p_frames, '$[*] ? (exists(@.file) && exists(@.function))') limit 50) x(f));
end $$;

-- Return a run as the API shows it: {job_id, run_no, attempt, retry_count (from 0), status, started_at, finished_at,
-- start_delay_ms, duration_ms, error, next_run_at, lock_owner, detail, frames}.
create function public.giftcard_run_json(h public.giftcard_job_history) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(jsonb_build_object(
    'job_id', h.job_id, 'run_no', h.run_no, 'attempt', h.attempt, 'retry_count', greatest(h.attempt, 1) - 1,
    'status', h.result, 'started_at', h.started_at, 'finished_at', h.finished_at,
    'start_delay_ms', case when isfinite(h.scheduled_at) and isfinite(h.started_at)
                           then greatest(0, public.giftcard_milliseconds(h.scheduled_at, h.started_at)) end,
    'duration_ms', public.giftcard_milliseconds(h.started_at, h.finished_at),
    'error', left(h.error, 500), 'next_run_at', h.next_run_at, 'lock_owner', left(h.lock_owner, 500),
    -- Written by hand it may be anything.
    'detail', case when jsonb_typeof(h.detail) = 'object' then h.detail
                   when h.detail is not null then jsonb_build_object('value', h.detail) end,
    'frames', public.giftcard_frames_json(h.frames)));
end $$;

-- Return the run of a job that is under way: {run_no, attempt, started_at, duration_ms, deadline_at: when its time to
-- run ends, lease_expires_at, heartbeat_at: the last change of its lease, null: none, lock_owner, tick_id: null: not
-- among the newest 200, cancel_requested_at}. null: the job is not running.
create function public.giftcard_current_run(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if j.status <> 'running' then
    return null;
  end if;
  return public.giftcard_readable_row(jsonb_build_object(
    'run_no', j.run_no, 'attempt', j.attempts, 'started_at', j.locked_at,
    'duration_ms', greatest(0, public.giftcard_milliseconds(j.locked_at, p_now)),
    -- A lease is 10 s longer than the time to run.
    'deadline_at', case when isfinite(j.lease_expires_at) then j.lease_expires_at - interval '10 seconds' end,
    'lease_expires_at', j.lease_expires_at,
    -- A request to cancel changes the row, too, and not the lease.
    'heartbeat_at', case when j.updated_at > j.locked_at and j.updated_at is distinct from j.cancel_requested_at
                         then j.updated_at end,
    'lock_owner', left(j.lock_owner, 500),
    -- A tick keeps the key of its last claim only; its process is that of the run in any case.
    'tick_id', (select t.id from (select * from public.giftcard_ticks order by id desc limit 200) t
                 where t.claim_key = j.lease_id or t.owner = j.lock_owner and t.started_at <= j.locked_at
                 order by t.claim_key = j.lease_id desc nulls last, t.id desc limit 1),
    'cancel_requested_at', j.cancel_requested_at));
end $$;

-- Return a page of the runs of a job, the newest first: {runs: as giftcard_run_json, older: the run to continue from,
-- null at the end}. p_older: the run_no of an earlier page. GC404 for an unknown job.
create function public.giftcard_history(
  p_job_id bigint, p_limit integer default 10, p_older integer default null, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  h public.giftcard_job_history;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  if not exists (select from public.giftcard_jobs
                  where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id))
     and not exists (select from public.giftcard_jobs_archive
                      where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id))
     -- Runs name no tenant: those that outlive their job are for callers who may see all.
     and (p_tenant_id is not null
          or not exists (select from public.giftcard_job_history where job_id = p_job_id)) then
    perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
  end if;
  for h in select * from public.giftcard_job_history
            where job_id = p_job_id and (p_older is null or run_no < p_older)
            order by run_no desc limit v_limit + 1 loop
    v_row := public.giftcard_run_json(h);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('runs', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'run_no' end);
end $$;
