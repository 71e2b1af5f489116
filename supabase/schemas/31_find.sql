-- Find jobs, and show one.

-- Refuse a filter with unknown names or invalid times. A filter is an object of {status, stage, circuit, tenant_id,
-- correlation_id, error (part of it, in any case), error_kind (the whole of it; that of a dead letter without a text is
-- 'no error text'), batch_id, created_after, created_before (times with a zone)}, each as text; what is absent or null
-- fits all jobs. The callers spell the conditions out for the planner.
create function public.giftcard_check_filter(p_filter jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_name text;
begin
  if jsonb_typeof(p_filter) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'a filter must be an object', 'filter');
  end if;
  for v_name in select jsonb_object_keys(p_filter) loop
    if v_name not in ('status', 'stage', 'circuit', 'tenant_id', 'correlation_id', 'error', 'error_kind',
                      'batch_id', 'created_after', 'created_before') then
      perform public.giftcard_refuse('GC400', format('there is no filter %s', v_name), v_name);
    elsif jsonb_typeof(p_filter -> v_name) not in ('string', 'null') then
      perform public.giftcard_refuse('GC400', format('the filter %s must be text', v_name), v_name);
    elsif v_name = 'batch_id' and (p_filter ->> v_name !~ '^[0-9]{1,19}$'
                                   or lpad(p_filter ->> v_name, 19, '0') collate "C" > '9223372036854775807') then
      perform public.giftcard_refuse('GC400', 'batch_id must be the number of a batch', v_name);
    elsif v_name in ('created_after', 'created_before') and p_filter ->> v_name
          !~* '^[0-9]{4}(-[0-9]{2}){2}[t ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(z|[+-][0-9]{2}(:?[0-9]{2})?)$' then
      perform public.giftcard_refuse(
        'GC400', format('%s must be a time with its zone, like 2026-01-31T12:00:00Z', v_name), v_name);
    end if;
  end loop;
end $$;

-- Return up to p_limit ids of jobs that fit a filter, by id: downwards from p_after (p_up: upwards). Ids are unique, so
-- pages neither skip nor repeat a row, whatever was created in the same instant.
create function public.giftcard_find_jobs(
  p_filter jsonb, p_after bigint default null, p_limit integer default 50, p_up boolean default false) returns bigint[]
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_status text := p_filter ->> 'status';
  v_stage text := p_filter ->> 'stage';
  v_circuit text := p_filter ->> 'circuit';
  v_tenant text := p_filter ->> 'tenant_id';
  v_flow text := p_filter ->> 'correlation_id';
  v_error text := lower(p_filter ->> 'error');
  v_kind text := p_filter ->> 'error_kind';
  v_batch bigint;
  v_from timestamptz;
  v_to timestamptz;
  v_ids bigint[];
begin
  perform public.giftcard_check_filter(p_filter);
  v_batch := (p_filter ->> 'batch_id')::bigint;
  v_from := (p_filter ->> 'created_after')::timestamptz;
  v_to := (p_filter ->> 'created_before')::timestamptz;
  if p_up then
    select array_agg(f.id order by f.id) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id > p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow) and (v_batch is null or j.batch_id = v_batch)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_kind is null or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = v_kind)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id limit least(p_limit, 1000)) f;
  else
    select array_agg(f.id order by f.id desc) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id < p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow) and (v_batch is null or j.batch_id = v_batch)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_kind is null or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = v_kind)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id desc limit least(p_limit, 1000)) f;
  end if;
  return coalesce(v_ids, '{}');
end $$;

-- Return when a job runs next: a queued one when it is due, a dead letter when it revives; null: never. A settle has
-- the same expression inline: a call for each of its jobs would cost 5 %.
create function public.giftcard_next_run_at(p_status text, p_scheduled_at timestamptz, p_revive_at timestamptz)
returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case p_status when 'queued' then p_scheduled_at when 'error' then p_revive_at end;
end $$;

-- Return a job as the API shows it, with next_run_at and waiting_for.
create function public.giftcard_job_json(
  j public.giftcard_jobs, p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_readable_row(to_jsonb(j) || jsonb_build_object(
    'next_run_at', public.giftcard_next_run_at(j.status, j.scheduled_at, j.revive_at),
    'waiting_for', public.giftcard_waiting_for(j, p_stages, p_missing, p_now)));
end $$;

-- Return a page of jobs, the newest first: {jobs, older, newer}: the ids to continue from, null at the end. A page ends
-- early where its jobs are large (see giftcard_page_ends).
create function public.giftcard_list_jobs(
  p_filter jsonb default '{}', p_before bigint default null, p_after bigint default null, p_limit integer default 50,
  p_stages jsonb default null, p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_up boolean := p_after is not null;
  v_id bigint;
  v_row jsonb;
  v_bytes integer := 0;
  v_ids bigint[] := array[]::bigint[];
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  foreach v_id in array public.giftcard_find_jobs(p_filter, case when v_up then p_after else p_before end, v_limit + 1,
                                                  v_up) loop
    select public.giftcard_job_json(j, p_stages, p_missing, v_now) into v_row
      from public.giftcard_jobs j where j.id = v_id;
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_ids := v_ids || v_id;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object(
    'jobs', (select coalesce(jsonb_agg(r.job order by r.id desc), '[]') from unnest(v_ids, v_rows) r(id, job)),
    -- null for a page without jobs
    'older', case when v_up or v_more then (select min(i) from unnest(v_ids) i) end,
    'newer', case when v_more and v_up or not v_up and p_before is not null
                  then (select max(i) from unnest(v_ids) i) end);
end $$;

-- Return one job as it stands, with next_run_at, waiting_for, current_run (null: it is not running) and archived_at
-- (null: not in the archive). GC404 for none.
create function public.giftcard_show_job(
  p_job_id bigint, p_stages jsonb default null, p_missing jsonb default '{}', p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  j public.giftcard_jobs;
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_archived jsonb;
begin
  select * into j from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    select public.giftcard_archived_job_json(a) into v_archived
      from public.giftcard_jobs_archive a
     where a.id = p_job_id and (p_tenant_id is null or a.tenant_id = p_tenant_id);
    if not found then
      perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
    end if;
    return v_archived || jsonb_build_object('next_run_at', null, 'current_run', null, 'waiting_for', jsonb_build_object(
      'reason', 'archived', 'text', format(
        'it left for the archive at %s: restore it before anything is done with it',
        public.giftcard_time_text((v_archived ->> 'archived_at')::timestamptz))));
  end if;
  return public.giftcard_job_json(j, p_stages, p_missing, v_now)
         || jsonb_build_object('archived_at', null, 'current_run', public.giftcard_current_run(j, v_now));
end $$;
