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

-- Refuse a job that is not in giftcard_jobs: GC409 for one that can be restored, GC404 for any other.
create function public.giftcard_refuse_absent(p_job_id bigint) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if exists (select from public.giftcard_jobs_archive where id = p_job_id) then
    perform public.giftcard_refuse('GC409', format('job %s is archived: restore it first', p_job_id), 'job_id');
  end if;
  perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
end $$;

-- Restore a job from the archive as it was, under its id. Its time until the next pruning begins again. Return {id,
-- status, restored}. GC404: it is not there; GC409: it is not archived, or another job has its place in the flow by
-- now.
create function public.giftcard_restore_job(p_job_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_job jsonb;
  v_other bigint;
begin
  delete from public.giftcard_jobs_archive where id = p_job_id returning job into v_job;
  if not found then
    if exists (select from public.giftcard_jobs where id = p_job_id) then
      perform public.giftcard_refuse(
        'GC409', format('job %s is not archived: there is nothing to restore', p_job_id), 'job_id');
    end if;
    perform public.giftcard_refuse('GC404', format('job %s is not in the archive', p_job_id), 'job_id');
  end if;
  v_job := v_job || jsonb_build_object('updated_at', coalesce(p_now, clock_timestamp()));
  insert into public.giftcard_jobs select * from jsonb_populate_record(null::public.giftcard_jobs, v_job)
    on conflict do nothing;
  if not found then
    select id into v_other from public.giftcard_jobs
     where id = p_job_id or tenant_id = v_job ->> 'tenant_id' and correlation_id = v_job ->> 'correlation_id'
       and stage = v_job ->> 'stage' and dedup_key = v_job ->> 'dedup_key' limit 1;
    perform public.giftcard_refuse('GC409', format(
      'job %s cannot come back: it was enqueued again, and job %s has its place in the flow', p_job_id, v_other),
      'job_id');
  end if;
  return jsonb_build_object('id', p_job_id, 'status', v_job ->> 'status', 'restored', true);
end $$;
