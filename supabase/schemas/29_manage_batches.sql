-- Create, fill, seal and show batches. Their jobs are cancelled and requeued by an operation with the filter batch_id.

-- Return jobs as they join a batch: they are its tenant's.
create function public.giftcard_jobs_of_batch(p_jobs jsonb, b public.giftcard_batches) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  if jsonb_typeof(p_jobs) is distinct from 'array' or p_jobs @? '$[*] ? (@.type() != "object")' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'jobs');
  end if;
  return (
    select coalesce(jsonb_agg(job || jsonb_build_object(
             'tenant_id', b.tenant_id, 'batch_id', b.id,
             'trigger_type', coalesce(nullif(job ->> 'trigger_type', 'flow'), 'sql')) order by n), '[]')
      from jsonb_array_elements(p_jobs) with ordinality e(job, n));
end $$;

-- Enqueue jobs into an open batch. Return their answers. GC409 for one that exists outside of the batch: it could end
-- before the batch does, or after.
create function public.giftcard_fill_batch(
  b public.giftcard_batches, p_jobs jsonb, p_now timestamptz) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_answers json := public.giftcard_enqueue(public.giftcard_jobs_of_batch(p_jobs, b), p_now => p_now);
  v_other bigint;
begin
  select j.id into v_other from public.giftcard_jobs j
   where j.id = any (array(select (a ->> 'id')::bigint from json_array_elements(v_answers) a))
     and j.batch_id is distinct from b.id
   order by j.id limit 1;
  if found then
    perform public.giftcard_refuse('GC409', format(
      'job %s exists already and is not in the batch: nothing was enqueued', v_other), 'jobs');
  end if;
  return v_answers;
end $$;

-- Refuse a follow-up that could not be enqueued at the end: it is enqueued now, and taken back.
create function public.giftcard_try_follow_up_of(b public.giftcard_batches, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_job json;
begin
  if b.follow_up ? 'batch_id' then
    perform public.giftcard_refuse('GC400', 'a follow-up belongs to no batch', 'follow_up.batch_id');
  elsif coalesce(b.follow_up ->> 'stage', '') = '' then
    perform public.giftcard_refuse('GC400', 'a follow-up needs a stage', 'follow_up.stage');
  end if;
  begin
    v_job := public.giftcard_enqueue(jsonb_build_array(public.giftcard_follow_up_of(b, '{}')), p_now => p_now) -> 0;
    raise triggered_action_exception;  -- undoes the insert
  exception when triggered_action_exception then
    null;
  end;
  if not (v_job ->> 'created')::boolean then
    perform public.giftcard_refuse(
      'GC409', format('the follow-up exists already: it is job %s', v_job ->> 'id'), 'follow_up');
  end if;
end $$;

-- Return what a repeat has in common with the first call: the keys of the jobs, and the follow-up without its trace.
create function public.giftcard_batch_fingerprint(p_follow_up jsonb, p_jobs jsonb) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return md5(concat(p_follow_up - 'context', (
    select jsonb_agg(jsonb_build_array(e.job -> 'stage', e.job -> 'correlation_id', e.job -> 'dedup_key') order by e.n)
      from jsonb_array_elements(p_jobs) with ordinality e(job, n))));
end $$;

-- Create a batch with its jobs (as giftcard_enqueue takes them, up to 1,000; all or none). Unless p_open it is sealed:
-- no other job can join it. p_name: called again with it, the same batch is returned, with created false, and nothing
-- changes: the first reply was lost. p_follow_up: the job to enqueue once all have ended; its context has `batch`: id,
-- name and how many there were (total, completed, error, cancelled). Return the batch, with jobs: [{id, status,
-- created}]. GC409: a job exists already; GC422: the name was used for another batch.
create function public.giftcard_create_batch(
  p_name text default null, p_follow_up jsonb default null, p_jobs jsonb default '[]', p_open boolean default false,
  p_by text default null, p_tenant_id text default 'default', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_follow_up jsonb := nullif(p_follow_up, 'null');
  v_jobs json := '[]'::json;
  b public.giftcard_batches;
begin
  if jsonb_typeof(p_jobs) is distinct from 'array' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'jobs');
  elsif char_length(p_name) not between 1 and 200 then
    perform public.giftcard_refuse('GC400', 'name must have 1 to 200 characters', 'name');
  elsif jsonb_typeof(v_follow_up) <> 'object' then
    perform public.giftcard_refuse('GC400', 'a follow-up must be an object', 'follow_up');
  elsif p_jobs = '[]' and not coalesce(p_open, false) then
    perform public.giftcard_refuse(
      'GC400', 'a batch without jobs must be open: add its jobs, then seal it', 'jobs');
  end if;
  insert into public.giftcard_batches as x (tenant_id, name, follow_up, created_at)
  values (coalesce(p_tenant_id, 'default'), p_name, v_follow_up, v_now)
  on conflict on constraint giftcard_batches_name_is_unique do nothing returning * into b;
  if not found then
    return public.giftcard_repeated_batch(p_name, v_follow_up, p_jobs, coalesce(p_tenant_id, 'default'));
  end if;
  if p_jobs <> '[]' then
    v_jobs := public.giftcard_fill_batch(b, p_jobs, v_now);
  end if;
  if v_follow_up is not null then
    perform public.giftcard_try_follow_up_of(b, v_now);  -- after the jobs: it is none of them
  end if;
  update public.giftcard_batches
     set sealed_at = case when not coalesce(p_open, false) then v_now end,
         fingerprint = public.giftcard_batch_fingerprint(v_follow_up, p_jobs)
   where id = b.id;
  perform public.giftcard_record_act(
    p_by, b.tenant_id, 'create_batch', 'batch ' || b.id, jsonb_build_object(
      'name', p_name, 'jobs', jsonb_array_length(p_jobs), 'follow_up', v_follow_up ->> 'stage',
      'open', nullif(p_open, false)), v_now);
  return public.giftcard_show_batch(b.id) || jsonb_build_object('created', true, 'jobs', v_jobs);
end $$;

-- Return a batch that was created with this name before. GC422 if it was another one.
create function public.giftcard_repeated_batch(p_name text, p_follow_up jsonb, p_jobs jsonb, p_tenant_id text)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  b public.giftcard_batches;
begin
  select * into b from public.giftcard_batches where tenant_id = p_tenant_id and name = p_name;
  if b.fingerprint is distinct from public.giftcard_batch_fingerprint(p_follow_up, p_jobs) then
    perform public.giftcard_refuse(
      'GC422', format('the name %s was used for another batch: it is batch %s', p_name, b.id), 'name');
  end if;
  return public.giftcard_show_batch(b.id) || jsonb_build_object(
    'created', false, 'jobs', coalesce((
      select jsonb_agg(jsonb_build_object('id', j.id, 'status', j.status, 'created', false) order by e.n)
        from jsonb_array_elements(p_jobs) with ordinality e(job, n)
        join public.giftcard_jobs j
          on j.tenant_id = p_tenant_id and j.correlation_id = e.job ->> 'correlation_id'
         and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '')), '[]'));
end $$;

-- Enqueue up to 1,000 more jobs into an open batch, all or none. Return {jobs: [{id, status, created}]}. One that is in
-- the batch already stays as it is. GC404 for no batch, GC409 for a sealed one or a job outside of it.
create function public.giftcard_add_to_batch(
  p_id bigint, p_jobs jsonb, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  b public.giftcard_batches := public.giftcard_find_batch(p_id, p_tenant_id);
  v_jobs json := public.giftcard_fill_batch(b, p_jobs, v_now);
begin
  perform public.giftcard_record_act(
    p_by, b.tenant_id, 'add_to_batch', 'batch ' || p_id,
    jsonb_build_object('jobs', jsonb_array_length(p_jobs)), v_now);
  return jsonb_build_object('jobs', v_jobs);
end $$;

-- Seal a batch: no other job can join it. One whose jobs have all ended, or that has none, ends at once. A sealed one
-- stays as it is. Return the batch. GC404 for none.
create function public.giftcard_seal_batch(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  b public.giftcard_batches := public.giftcard_find_batch(p_id, p_tenant_id);
begin
  update public.giftcard_batches set sealed_at = v_now where id = p_id and sealed_at is null;
  if found then
    perform public.giftcard_record_act(p_by, b.tenant_id, 'seal_batch', 'batch ' || p_id, '{}', v_now);
    perform public.giftcard_meet_settles(p_id);
    perform public.giftcard_end_batches(array[p_id], v_now);
  end if;
  return public.giftcard_show_batch(p_id, p_tenant_id);
end $$;

-- Return the row of a batch. GC404 for none.
create function public.giftcard_find_batch(p_id bigint, p_tenant_id text) returns public.giftcard_batches
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  b public.giftcard_batches;
begin
  select * into b from public.giftcard_batches
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('batch %s does not exist', p_id), 'batch_id');
  end if;
  return b;
end $$;

-- Return a batch as the API shows it. Its counts are those of now, each up to p_cap (capped: there are more of one):
-- after its end a job that is requeued shows there, while ended_with stays as it was.
create function public.giftcard_batch_json(b public.giftcard_batches, p_cap integer) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_counts jsonb := public.giftcard_batch_counts(b.id, p_cap + 1);
begin
  return public.giftcard_readable_row(to_jsonb(b) - 'fingerprint' || jsonb_build_object(
    'state', case when b.ended_at is not null then 'ended' when b.sealed_at is not null then 'running' else 'open' end,
    'counts', (select jsonb_object_agg(key, least(value::bigint, p_cap)) from jsonb_each_text(v_counts - 'total'))
              || jsonb_build_object('total', least((v_counts ->> 'total')::bigint, 5 * p_cap)),
    'capped', (select bool_or(value::bigint > p_cap) from jsonb_each_text(v_counts - 'total')),
    'reviving', case when b.ended_at is null then public.giftcard_count_reviving(b.id, p_cap) else 0 end), 50000);
end $$;

-- Count the dead letters of a batch that will revive, up to p_cap: they have not ended.
create function public.giftcard_count_reviving(p_batch_id bigint, p_cap integer) returns bigint
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (select count(*) from (
    select from public.giftcard_jobs
     where batch_id is not null and batch_id = p_batch_id and status = 'error' and revive_at is not null
     limit p_cap) c);
end $$;

-- Return a batch, with its counts up to 100,000. GC404 for none.
create function public.giftcard_show_batch(p_id bigint, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_batch_json(public.giftcard_find_batch(p_id, p_tenant_id), 100000);
end $$;

-- Return a page of batches, the newest first: {batches, older}: the id to continue from, null at the end. Their counts
-- go up to 1,000. p_state: only those that are open, running or ended.
create function public.giftcard_list_batches(
  p_state text default null, p_older bigint default null, p_limit integer default 50, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  b public.giftcard_batches;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  for b in select * from public.giftcard_batches
            where (p_older is null or id < p_older) and (p_tenant_id is null or tenant_id = p_tenant_id)
              and (p_state is null or p_state <> 'open' or sealed_at is null)
              and (p_state is null or p_state <> 'running' or sealed_at is not null and ended_at is null)
              and (p_state is null or p_state <> 'ended' or ended_at is not null)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_batch_json(b, 1000);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('batches', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
