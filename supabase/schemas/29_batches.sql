-- Batches: jobs that end together. Once the last of them has ended, a follow-up is enqueued in the same transaction.
--
-- A batch is open, then sealed, then ended. It cannot end while it is open, so that a first job that is quick does not
-- end it before the second is enqueued. Next jobs belong to the batch of their job, also when it is sealed: a batch
-- ends when whole flows have ended. A dead letter that will revive has not ended.

create table public.giftcard_batches (
  id bigint generated always as identity,
  tenant_id text collate "C" not null default 'default',
  name text collate "C",
  follow_up jsonb,
  fingerprint text not null default '',
  created_at timestamptz not null default now(),
  sealed_at timestamptz,
  ended_at timestamptz,
  ended_with jsonb,
  follow_up_job_id bigint,
  error text,
  constraint giftcard_batches_pkey primary key (id),
  constraint giftcard_batches_name_is_unique unique (tenant_id, name),
  constraint giftcard_batches_tenant_is_not_empty check (tenant_id <> ''),
  constraint giftcard_batches_name_is_short check (char_length(name) between 1 and 200),
  constraint giftcard_batches_follow_up_is_an_object check (jsonb_typeof(follow_up) = 'object'),
  constraint giftcard_batches_end_sealed check (ended_at is null or sealed_at is not null)
);
create index giftcard_batches_by_tenant on public.giftcard_batches (tenant_id, id);
create index giftcard_batches_running on public.giftcard_batches (id)
    where sealed_at is not null and ended_at is null;
create index giftcard_batches_open on public.giftcard_batches (id) where sealed_at is null;
create index giftcard_batches_ended on public.giftcard_batches (ended_at, id) where ended_at is not null;

comment on table public.giftcard_batches is
  'One row is a batch: jobs (giftcard_jobs.batch_id) and what follows their end. It is removed 30 days after that.';
comment on column public.giftcard_batches.name is 'Of two batches of a tenant with one name, the second is the first.';
comment on column public.giftcard_batches.follow_up is 'The job to enqueue at its end, as giftcard_enqueue takes it.';
comment on column public.giftcard_batches.fingerprint is 'Of the jobs that it was created with: a repeat has the same.';
comment on column public.giftcard_batches.sealed_at is 'No job joins it from then on, except next jobs of its own.';
comment on column public.giftcard_batches.ended_with is 'How many of its jobs there were at its end, by status.';
comment on column public.giftcard_batches.error is
  'Why its follow-up cannot be enqueued: it has not ended, and ticks try again.';

-- Both hold only jobs that have a batch. Those of a batch by status and id, for its counts, its list and operations.
create index giftcard_jobs_batch on public.giftcard_jobs (batch_id, status, id) where batch_id is not null;
-- Those that have not ended: read downwards, because the newest end last.
create index giftcard_jobs_batch_open on public.giftcard_jobs (batch_id, id)
    where batch_id is not null and (status in ('queued', 'running') or status = 'error' and revive_at is not null);

-- Return whether a batch has a job that has not ended.
create function public.giftcard_has_open_jobs(p_batch_id bigint) returns boolean
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  -- A scalar, not exists(): the order has to hold.
  return (select true from public.giftcard_jobs
           where batch_id is not null and batch_id = p_batch_id
             and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
           order by batch_id desc, id desc limit 1) is not null;
end $$;

-- Wait for what ends the last jobs of a batch at this moment: it does not see the seal, so it does not end the batch.
-- An open job that is free is held until the seal has been committed: what ends that job sees the seal.
create function public.giftcard_meet_settles(p_batch_id bigint) returns void
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where batch_id is not null and batch_id = p_batch_id
     and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
   order by batch_id desc, id desc limit 1 for share skip locked;
  if not found then
    perform from public.giftcard_jobs
     where batch_id is not null and batch_id = p_batch_id
       and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
     order by id for share;
  end if;
end $$;

-- Count the jobs of a batch by status, each up to p_cap: {total, queued, running, completed, error, cancelled}.
-- Archived jobs are not among them: a job is archived only after the end of its batch.
create function public.giftcard_batch_counts(p_batch_id bigint, p_cap integer default null) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (
    select jsonb_object_agg(s.status, n.jobs) || jsonb_build_object('total', sum(n.jobs))
      from unnest(array['queued', 'running', 'completed', 'error', 'cancelled']) s(status)
     cross join lateral (
       select count(*) as jobs from (
         select from public.giftcard_jobs j
          where j.batch_id is not null and j.batch_id = p_batch_id and j.status = s.status limit p_cap) c) n);
end $$;

-- Return the follow-up of a batch as it is enqueued, with the counts in its context; null: it has none.
create function public.giftcard_follow_up_of(b public.giftcard_batches, p_counts jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return '{"dedup_key": ""}' || b.follow_up || jsonb_build_object(
    'tenant_id', b.tenant_id, 'trigger_type', 'flow',
    'correlation_id', coalesce(b.follow_up ->> 'correlation_id', 'batch-' || b.id),
    'context', coalesce(nullif(b.follow_up -> 'context', 'null'), '{}')
               || jsonb_build_object('batch', jsonb_build_object('id', b.id, 'name', b.name) || p_counts));
end $$;

-- End those of some batches that are sealed and whose jobs have all ended, and enqueue their follow-ups. The caller may
-- hold jobs, and no batch with a higher id. Return how many have ended.
create function public.giftcard_end_batches(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ended integer := 0;
  v_id bigint;
  b public.giftcard_batches;
begin
  for v_id in select distinct i from unnest(p_ids) i order by i loop
    -- Those that end its last jobs at the same time take turns here. The next statement sees what the one before has
    -- committed, so the last of them finds no open job, and no other does.
    select * into b from public.giftcard_batches
     where id = v_id and sealed_at is not null and ended_at is null for update;
    if found and not public.giftcard_has_open_jobs(v_id) then
      v_ended := v_ended + public.giftcard_end_batch(b, p_now)::integer;
    end if;
  end loop;
  return v_ended;
end $$;

-- End a batch whose row is locked and whose jobs have ended. Return whether it has: if the database refuses its
-- follow-up, that fails no settle; the reason is kept, and ticks try again.
create function public.giftcard_end_batch(b public.giftcard_batches, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_counts jsonb := public.giftcard_batch_counts(b.id) - '{queued,running}'::text[];
  v_error text;
  v_job json;
begin
  if b.follow_up is not null then
    v_job := public.giftcard_enqueue(
      jsonb_build_array(public.giftcard_follow_up_of(b, v_counts)), p_commits => true, p_now => p_now) -> 0;
    perform public.giftcard_check_changed(((v_job ->> 'id') is not null)::integer, 1);
    if not (v_job ->> 'created')::boolean then
      perform public.giftcard_refuse('GC409', format('it exists already: it is job %s', v_job ->> 'id'));
    end if;
  end if;
  update public.giftcard_batches
     set ended_at = p_now, ended_with = v_counts, follow_up_job_id = (v_job ->> 'id')::bigint, error = null
   where id = b.id;
  return true;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  v_error := public.giftcard_error_text(sqlstate, sqlerrm);
  update public.giftcard_batches set error = v_error where id = b.id;
  perform public.giftcard_record_fault('batch', b.id::text, 'its follow-up cannot be enqueued: ' || v_error, p_now);
  return false;
end $$;

-- End batches whose last job has ended in another way than by a settle or a cancel: by plain SQL, or put aside. Those
-- whose follow-up was refused come last: however many there are, they hide no other. The maintenance task `batches`.
-- Return how many have ended.
create function public.giftcard_end_quiet_batches(p_limit integer default 1000, p_now timestamptz default null)
returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_end_batches(array(
    select b.id from public.giftcard_batches b
     where b.sealed_at is not null and b.ended_at is null and not public.giftcard_has_open_jobs(b.id)
     order by b.error is not null, b.id limit least(p_limit, 1000)), coalesce(p_now, clock_timestamp()));
end $$;

-- Refuse jobs that join a batch: GC404 if it is none of their tenant, GC409 if it is sealed. None is sealed before the
-- caller commits. Next jobs (trigger_type flow) are let in: the settle of a job of the batch enqueues them.
create function public.giftcard_check_batches(p_jobs jsonb) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  for r in
    select distinct (e.job ->> 'batch_id')::bigint as batch_id, coalesce(e.job ->> 'tenant_id', 'default') as tenant_id
      from jsonb_array_elements(p_jobs) e(job)
     where e.job ->> 'batch_id' is not null and e.job ->> 'trigger_type' is distinct from 'flow' order by 1, 2
  loop
    perform from public.giftcard_batches
     where id = r.batch_id and tenant_id = r.tenant_id and sealed_at is null for share;
    if not found and exists (
      select from public.giftcard_batches where id = r.batch_id and tenant_id = r.tenant_id) then
      perform public.giftcard_refuse(
        'GC409', format('batch %s is sealed: no job can join it any more', r.batch_id), 'batch_id');
    elsif not found then
      perform public.giftcard_refuse('GC404', format('batch %s does not exist', r.batch_id), 'batch_id');
    end if;
  end loop;
end $$;
