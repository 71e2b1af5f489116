-- Enqueue: one job or many.

-- Raise a refusal: giftcard_refuse('GC404', 'job 7 does not exist'). The field at fault becomes the error's DETAIL.
create function public.giftcard_refuse(p_sqlstate text, p_message text, p_field text default null) returns void
language plpgsql security invoker set search_path = '' as $$
begin
  raise exception '%', p_message using errcode = p_sqlstate, detail = coalesce(p_field, '');
end $$;

-- Refuse what cannot be enqueued as a whole: no array, too many jobs, a time without its zone, a concurrency key that
-- is no name.
create function public.giftcard_check_jobs(p_jobs jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
begin
  -- The checks of times and keys only where there are any.
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'p_jobs');
  elsif jsonb_array_length(p_jobs) > 1000 then
    perform public.giftcard_refuse('GC400', format(
      '%s jobs are too many for one call: send at most 1000', jsonb_array_length(p_jobs)), 'p_jobs');
  elsif p_jobs @? '$[*].scheduled_at ? (@.type() != "null" && (@.type() != "string" || !(@ like_regex
      "^[0-9]{4}(-[0-9]{2}){2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$" flag "i")))'
  then
    perform public.giftcard_refuse(
      'GC400', 'scheduled_at must be a time with its zone, like 2026-01-31T12:00:00Z', 'scheduled_at');
  elsif p_jobs @? '$[*].concurrency_key ? (@.type() != "null" && (@.type() != "string"
      || !(@ like_regex "^[^[:cntrl:]]{0,200}$")))' then
    perform public.giftcard_refuse(
      'GC400', 'concurrency_key must be up to 200 characters without control characters', 'concurrency_key');
  end if;
end $$;

-- Return {id, status, created} of each job that an enqueue was given, in its order; p_new are those that it created.
-- With p_replace, one in error or cancelled is queued again with its new payload.
create function public.giftcard_enqueued_jobs(p_jobs jsonb, p_new bigint[], p_replace boolean, p_now timestamptz)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_answers json;
begin
  select json_agg(json_build_object('id', j.id, 'status', j.status, 'created', j.id = any (coalesce(p_new, '{}')))
                  order by e.n)
    into v_answers
    from jsonb_array_elements(p_jobs) with ordinality e(job, n)
    left join public.giftcard_jobs j
      on j.tenant_id = coalesce(e.job ->> 'tenant_id', 'default') and j.correlation_id = e.job ->> 'correlation_id'
     and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '');
  if not p_replace then
    return v_answers;
  end if;
  return (
    select json_agg(
      case when (a.answer ->> 'created')::boolean or a.answer ->> 'status' not in ('error', 'cancelled')
           then a.answer::jsonb
           else (public.giftcard_requeue_job(
                  (a.answer ->> 'id')::bigint, p_jobs -> (a.n - 1)::integer -> 'payload', false,
                  p_jobs -> (a.n - 1)::integer ->> 'circuit', p_jobs -> (a.n - 1)::integer ->> 'source', null,
                  p_now)).answer || '{"created": false}' end
      order by a.n)
    from json_array_elements(v_answers) with ordinality a(answer, n));
end $$;

-- Lock the jobs that an enqueue with p_replace may queue again, before it adds any: by id, as everybody does.
create function public.giftcard_lock_enqueued(p_jobs jsonb) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where id = any (array(
     select j.id from jsonb_array_elements(p_jobs) e(job)
       join public.giftcard_jobs j
         on j.tenant_id = coalesce(e.job ->> 'tenant_id', 'default') and j.correlation_id = e.job ->> 'correlation_id'
        and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '')))
   order by id for update;
end $$;

-- Return the rows of the jobs that an enqueue was given, to be added in this order. Ids follow the caller's order, in
-- which jobs of one time start. Rows are added by their keys: of two calls with the same keys one waits for the other
-- at the first, and neither holds what the other needs.
create function public.giftcard_asked_jobs(p_jobs jsonb, p_now timestamptz) returns table (
  id bigint, tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text,
  source text, payload jsonb, context jsonb, max_attempts integer, semantics text, ttr_seconds integer,
  retry_delays double precision[], priority smallint, concurrency_key text, batch_id bigint, scheduled_at timestamptz,
  created_at timestamptz, updated_at timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return query
  with asked as materialized (
    select nextval('public.giftcard_jobs_id_seq') as id, coalesce(j.tenant_id, 'default') as tenant_id,
           j.correlation_id, j.stage, coalesce(j.dedup_key, '') as dedup_key, coalesce(j.circuit, j.stage),
           coalesce(j.trigger_type, 'sql'), coalesce(j.source, 'sql'), coalesce(j.payload, '{}'),
           coalesce(j.context, '{}'), j.max_attempts, coalesce(j.semantics, 'at_least_once'), j.ttr_seconds,
           j.retry_delays, coalesce(j.priority, 0::smallint), nullif(j.concurrency_key, ''), j.batch_id,
           coalesce(j.scheduled_at, p_now) + make_interval(secs => coalesce(j.delay_seconds, 0)), p_now, p_now
      from jsonb_to_recordset(p_jobs) as j(
        tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text, source text,
        payload jsonb, context jsonb, max_attempts integer, semantics text, ttr_seconds integer,
        retry_delays double precision[], priority smallint, concurrency_key text, batch_id bigint,
        scheduled_at timestamptz, delay_seconds double precision))
  select a.* from asked a
   order by a.correlation_id collate "C", a.tenant_id collate "C", a.stage collate "C", a.dedup_key collate "C", a.id
   limit 1000;
end $$;

-- Add many jobs of which none is there yet, as nearly always: without ON CONFLICT, which writes a confirmation for each
-- row and looks each up first, an enqueue of 1,000 costs a seventh less. Return their ids and what giftcard_enqueue
-- answers; null: one is there already, and nothing was added.
create function public.giftcard_add_new_jobs(
  p_jobs jsonb, p_now timestamptz, out ids bigint[], out answers json)
language plpgsql volatile security invoker set search_path = '' as $$
begin
  with inserted as (
    insert into public.giftcard_jobs
      (id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, max_attempts,
       semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id, scheduled_at, created_at, updated_at)
    select * from public.giftcard_asked_jobs(p_jobs, p_now)
    returning id)
  -- As text: a third of the cost of json_build_object.
  select array_agg(id),
         ('[' || string_agg('{"id": ' || id || ', "status": "queued", "created": true}', ', ' order by id) || ']')::json
    into ids, answers from inserted;
exception when unique_violation then
  ids := null;
end $$;

-- Enqueue jobs: an array of up to 1,000 objects with stage and correlation_id and, optionally, tenant_id, dedup_key,
-- circuit, trigger_type, source (app, pgmq; without it, sql), payload, context, max_attempts, semantics, ttr_seconds,
-- retry_delays, priority, concurrency_key, batch_id, scheduled_at (with its zone), delay_seconds. Return [{id, status,
-- created}] in the same order. A job that exists already is returned as it stands and not changed; with p_replace, one
-- in error or cancelled is queued again with this payload. p_by: the operator whose act it is; null: a program
-- enqueues, which the audit leaves out.
-- p_commits: the transaction ends with this call; else jobs are due from its commit on (giftcard_schedule_at_commit).
create function public.giftcard_enqueue(
  p_jobs jsonb, p_replace boolean default false, p_by text default null, p_commits boolean default false,
  p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_new bigint[];
  v_answers json;
begin
  -- The checks of times and keys only where there are any.
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' or jsonb_array_length(p_jobs) > 1000
     or p_jobs @? '$[*] ? (exists (@.scheduled_at) || exists (@.concurrency_key))' then
    perform public.giftcard_check_jobs(p_jobs);
  end if;
  if p_jobs = '[]' then
    return '[]'::json;
  end if;
  if p_replace then
    perform public.giftcard_lock_enqueued(p_jobs);
  end if;
  if p_jobs @? '$[*].batch_id ? (@ != null)' then
    perform public.giftcard_check_batches(p_jobs);
  end if;
  perform set_config('giftcard.writer', case when p_commits then 'enqueue' else 'transaction' end, true);
  if jsonb_array_length(p_jobs) >= 20 then
    select n.ids, n.answers into v_new, v_answers from public.giftcard_add_new_jobs(p_jobs, v_now) n;
  end if;
  if v_new is null then
    with inserted as (
      insert into public.giftcard_jobs
        (id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, max_attempts,
         semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id, scheduled_at, created_at,
         updated_at)
      select * from public.giftcard_asked_jobs(p_jobs, v_now)
      on conflict on constraint giftcard_jobs_flow_key do nothing
      returning id)
    select array_agg(id), json_agg(json_build_object('id', id, 'status', 'queued', 'created', true) order by id)
      into v_new, v_answers from inserted;
  end if;
  perform set_config('giftcard.writer', '', true);
  if cardinality(v_new) is distinct from jsonb_array_length(p_jobs) then
    -- Some existed already. Another call has a new snapshot: it sees what another transaction has just committed.
    v_answers := public.giftcard_enqueued_jobs(p_jobs, v_new, p_replace, p_now);
  end if;
  if p_by is not null then
    perform public.giftcard_record_jobs(p_by, 'enqueue', array(
      select (a ->> 'id')::bigint from json_array_elements(v_answers) a
       where (a ->> 'created')::boolean or (a -> 'was') is not null), '{}', v_now);
  end if;
  return v_answers;
end $$;
