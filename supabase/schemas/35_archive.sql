-- The archive: jobs that have left giftcard_jobs, and their way back.

create table public.giftcard_jobs_archive (
  id bigint not null,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  stage text collate "C" not null,
  dedup_key text collate "C" not null,
  archived_at timestamptz not null,
  job jsonb not null,
  constraint giftcard_jobs_archive_pkey primary key (id)
);
-- Not unique: a job that is enqueued again after it left is a new one.
create index giftcard_jobs_archive_by_flow on public.giftcard_jobs_archive (tenant_id, correlation_id, stage,
  dedup_key);
create index giftcard_jobs_archive_by_age on public.giftcard_jobs_archive (archived_at, id);

comment on table public.giftcard_jobs_archive is
  'Jobs that have left giftcard_jobs. giftcard_restore_job brings one back under its id, which its history refers '
  'to.';
comment on column public.giftcard_jobs_archive.job is
  'The row as it was, without its nulls. A not-null column that giftcard_jobs gets later must be added here.';

-- Mark an archived job that plain SQL has written: restored, it is one of plain SQL.
create function public.giftcard_mark_archived_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.job := new.job || '{"source": "sql"}';
  return new;
end $$;

create trigger giftcard_jobs_archive_mark_inserted_by_hand before insert on public.giftcard_jobs_archive
  for each row when (jsonb_typeof(new.job) = 'object' and coalesce(current_setting('giftcard.writer', true), '') = '')
  execute function public.giftcard_mark_archived_by_hand();
create trigger giftcard_jobs_archive_mark_changed_by_hand before update of job on public.giftcard_jobs_archive
  for each row when (jsonb_typeof(new.job) = 'object' and coalesce(current_setting('giftcard.writer', true), '') = ''
    and (new.job -> 'source' is distinct from old.job -> 'source'
         or new.job -> 'payload' is distinct from old.job -> 'payload'))
  execute function public.giftcard_mark_archived_by_hand();

-- Return a job of the archive as it was, with archived_at. One whose JSON is not that of a job is in error, with the
-- reason.
create function public.giftcard_archived_job_json(a public.giftcard_jobs_archive) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_known jsonb := jsonb_build_object(
    'id', a.id, 'tenant_id', a.tenant_id, 'correlation_id', a.correlation_id, 'stage', a.stage,
    'dedup_key', a.dedup_key);
  v_usual jsonb := jsonb_build_object(
    'circuit', a.stage, 'trigger_type', 'sql', 'source', 'sql', 'status', 'error', 'payload', '{}'::jsonb,
    'context', '{}'::jsonb, 'attempts', 0, 'run_no', 0, 'revivals', 0, 'priority', 0, 'semantics', 'at_least_once',
    'scheduled_at', a.archived_at, 'created_at', a.archived_at, 'updated_at', a.archived_at);
  v_job jsonb;
begin
  v_job := to_jsonb(jsonb_populate_record(null::public.giftcard_jobs, v_usual || coalesce(
    (select jsonb_object_agg(m.key, m.value) from jsonb_each(a.job) m where m.value <> 'null'), '{}') || v_known));
  if v_job ->> 'status' not in ('completed', 'error', 'cancelled', 'queued', 'running') then
    v_job := v_job || '{"status": "error"}';
  end if;
  return public.giftcard_readable_row(v_job || jsonb_build_object(
    'error_kind', case when v_job ->> 'last_error' is not null
                       then public.giftcard_error_kind(v_job ->> 'last_error') end,
    'archived_at', a.archived_at));
exception when data_exception or integrity_constraint_violation then
  return to_jsonb(jsonb_populate_record(null::public.giftcard_jobs, v_usual || v_known || jsonb_build_object(
    'payload', jsonb_build_object('archived', public.giftcard_readable(a.job, 100000)),
    'last_error', left('the archived row is not that of a job: ' || sqlerrm, 500))))
    || jsonb_build_object('archived_at', a.archived_at);
end $$;

-- Move jobs to the archive. The caller holds their rows.
create function public.giftcard_archive_jobs(p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  perform set_config('giftcard.writer', 'archive', true);
  with gone as (
    delete from public.giftcard_jobs where id = any (p_ids) returning *)
  insert into public.giftcard_jobs_archive (id, tenant_id, correlation_id, stage, dedup_key, archived_at, job)
  select g.id, g.tenant_id, g.correlation_id, g.stage, g.dedup_key, p_now,
         -- Without columns that are null and what last_error gives; a null inside a payload stays.
         jsonb_strip_nulls(to_jsonb(g) - '{payload,context,error_kind}'::text[])
             || jsonb_build_object('payload', g.payload, 'context', g.context)
    from gone g
  on conflict (id) do update set archived_at = excluded.archived_at, job = excluded.job;
  perform set_config('giftcard.writer', '', true);
end $$;

-- Move jobs to the archive; if that fails, one by one. One that cannot go, such as one that a foreign key of another
-- table refers to, stays and is recorded. Return how many went.
create function public.giftcard_try_archive_jobs(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_moved integer := 0;
  v_id bigint;
begin
  perform public.giftcard_archive_jobs(p_ids, p_now);
  return cardinality(p_ids);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  elsif cardinality(p_ids) = 1 then
    perform public.giftcard_record_fault(
      'prune', 'job ' || p_ids[1], 'it cannot be archived: ' || public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    return 0;
  end if;
  foreach v_id in array p_ids loop
    v_moved := v_moved + public.giftcard_try_archive_jobs(array[v_id], p_now);
  end loop;
  return v_moved;
end $$;

-- Refuse a job that is not in giftcard_jobs: GC409 for one that can be restored, GC404 for any other. p_tenant_id, here
-- and in other functions: the only tenant that the caller may see, for whom those of others do not exist; null: all.
create function public.giftcard_refuse_absent(p_job_id bigint, p_tenant_id text) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if exists (select from public.giftcard_jobs_archive
              where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)) then
    perform public.giftcard_refuse('GC409', format('job %s is archived: restore it first', p_job_id), 'job_id');
  end if;
  perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
end $$;

-- Insert a job as the archive has it, unless another has its id or its place in its flow. Return whether it is there.
create function public.giftcard_insert_archived(p_job jsonb) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_inserted boolean;
begin
  perform set_config('giftcard.writer', 'restore', true);
  insert into public.giftcard_jobs (
    id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, status, payload, context,
    attempts, max_attempts, run_no, semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id,
    scheduled_at, locked_at, lock_owner, lease_id, lease_expires_at, cancel_requested_at, revive_at, revivals,
    last_error, created_at, updated_at, finished_at)
  select
    id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, status, payload, context,
    attempts, max_attempts, run_no, semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id,
    scheduled_at, locked_at, lock_owner, lease_id, lease_expires_at, cancel_requested_at, revive_at, revivals,
    last_error, created_at, updated_at, finished_at
    -- A job that was archived before it had a priority has none.
    from jsonb_populate_record(null::public.giftcard_jobs, '{"priority": 0}' || p_job)
    on conflict do nothing;
  v_inserted := found;
  perform set_config('giftcard.writer', '', true);
  return v_inserted;
end $$;

-- Restore a job from the archive as it was, under its id. Its time until the next pruning begins again. p_reason: why,
-- for the audit. Return {id, status, restored}. GC404: it is not there; GC409: it is not archived, or another job has
-- its place in the flow by now.
create function public.giftcard_restore_job(
  p_job_id bigint, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_job jsonb;
  v_other bigint;
begin
  delete from public.giftcard_jobs_archive
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)
  -- Whatever an UPDATE has written into the JSON: it is the job of this tenant and id.
  returning job || jsonb_build_object(
    'id', id, 'tenant_id', tenant_id, 'correlation_id', correlation_id, 'stage', stage, 'dedup_key', dedup_key)
  into v_job;
  if not found then
    if exists (select from public.giftcard_jobs
                where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)) then
      perform public.giftcard_refuse(
        'GC409', format('job %s is not archived: there is nothing to restore', p_job_id), 'job_id');
    end if;
    perform public.giftcard_refuse('GC404', format('job %s is not in the archive', p_job_id), 'job_id');
  end if;
  v_job := v_job || jsonb_build_object('updated_at', coalesce(p_now, clock_timestamp()));
  if not public.giftcard_insert_archived(v_job) then
    select id into v_other from public.giftcard_jobs
     where id = p_job_id or tenant_id = v_job ->> 'tenant_id' and correlation_id = v_job ->> 'correlation_id'
       and stage = v_job ->> 'stage' and dedup_key = v_job ->> 'dedup_key' limit 1;
    perform public.giftcard_refuse('GC409', format(
      'job %s cannot come back: it was enqueued again, and job %s has its place in the flow', p_job_id, v_other),
      'job_id');
  end if;
  perform public.giftcard_record_jobs(
    p_by, 'restore', array[p_job_id], jsonb_build_object('reason', p_reason), p_now);
  return jsonb_build_object('id', p_job_id, 'status', v_job ->> 'status', 'restored', true);
end $$;
