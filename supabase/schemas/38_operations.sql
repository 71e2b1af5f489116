-- Operations: what operators do to many jobs. A row is one operation, with its progress. Ticks carry it out in steps:
-- 39_operation_steps.sql.

create table public.giftcard_operations (
  id bigint generated always as identity,
  idempotency_key text collate "C" not null default gen_random_uuid()::text,
  action text collate "C" not null,
  tenant_id text collate "C",
  filter jsonb not null default '{}',
  job_ids bigint[],
  reason text not null,
  created_by text collate "C" not null,
  per_minute double precision,
  state text collate "C" not null default 'running',
  total integer not null,
  capped boolean not null,
  matched bigint not null default 0,
  changed bigint not null default 0,
  after_id bigint not null default 0,
  until_id bigint not null,
  first_job_id bigint,
  next_at timestamptz,
  stopped_because text,
  error text,
  created_at timestamptz not null,
  last_at timestamptz,
  finished_at timestamptz,
  constraint giftcard_operations_pkey primary key (id),
  constraint giftcard_operations_action_is_known check (action in ('requeue', 'requeue_slowly', 'cancel')),
  constraint giftcard_operations_state_is_known check (state in ('running', 'stopped', 'completed', 'failed')),
  constraint giftcard_operations_filter_is_an_object check (jsonb_typeof(filter) = 'object'),
  constraint giftcard_operations_per_minute_is_positive check (
    case action when 'requeue_slowly' then per_minute > 0 and per_minute <= 60000 else per_minute is null end)
);
create unique index giftcard_operations_by_key on public.giftcard_operations
  (coalesce(tenant_id, ''), idempotency_key);
create index giftcard_operations_by_tenant on public.giftcard_operations (tenant_id, id);
create index giftcard_operations_running on public.giftcard_operations (last_at, id) where state = 'running';

comment on table public.giftcard_operations is
  'One row is one operation on many jobs, done by ticks in steps. It is removed 30 days after its end.';
comment on column public.giftcard_operations.tenant_id is 'The only tenant whose jobs it changes; null: all.';
comment on column public.giftcard_operations.job_ids is 'The selected jobs, instead of a filter.';
comment on column public.giftcard_operations.total is
  'How many jobs it would have changed when it was created; capped: there were more.';
comment on column public.giftcard_operations.matched is 'Jobs that it has met; changed: those that still fitted then.';
comment on column public.giftcard_operations.after_id is 'It goes up by id: all jobs up to this one are done.';
comment on column public.giftcard_operations.until_id is 'The last job that there was when it was created.';
comment on column public.giftcard_operations.first_job_id is 'Slowly: the job that runs first, alone.';
comment on column public.giftcard_operations.next_at is
  'Slowly: when the next job is due; null: the first has not ended.';

-- Refuse an operation that is none. Return its filter, with the tenant that the caller is limited to. An empty filter
-- fits all jobs.
create function public.giftcard_check_operation(
  p_action text, p_filter jsonb, p_job_ids bigint[], p_tenant_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_filter jsonb := coalesce(p_filter, '{}');
begin
  if p_action is null or p_action not in ('requeue', 'requeue_slowly', 'cancel') then
    perform public.giftcard_refuse('GC400', 'action must be requeue, requeue_slowly or cancel', 'action');
  end if;
  perform public.giftcard_check_filter(v_filter);
  v_filter := jsonb_strip_nulls(v_filter);
  if p_tenant_id <> v_filter ->> 'tenant_id' then
    perform public.giftcard_refuse('GC400', 'the filter names another tenant than yours', 'filter.tenant_id');
  elsif p_action = 'cancel' and v_filter ->> 'status' not in ('queued', 'running', 'error') then
    perform public.giftcard_refuse(
      'GC400', 'only jobs that are queued, running or in error are cancelled', 'filter.status');
  elsif p_action <> 'cancel' and v_filter ->> 'status' not in ('error', 'cancelled') then
    perform public.giftcard_refuse('GC400', 'only jobs in error or cancelled are requeued by filter', 'filter.status');
  elsif p_job_ids is not null and v_filter - 'tenant_id' <> '{}' then
    perform public.giftcard_refuse('GC400', 'job_ids and filter exclude each other: give one of them', 'job_ids');
  elsif cardinality(p_job_ids) not between 1 and 1000 or array_position(p_job_ids, null) is not null then
    perform public.giftcard_refuse('GC400', 'job_ids must be 1 to 1000 ids', 'job_ids');
  end if;
  return v_filter || jsonb_strip_nulls(jsonb_build_object('tenant_id', p_tenant_id));
end $$;

-- Return up to p_limit ids above p_after of the jobs that an operation is about, upwards. The filter is a checked one.
create function public.giftcard_operation_jobs(
  p_action text, p_filter jsonb, p_job_ids bigint[], p_after bigint, p_limit integer) returns bigint[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_statuses text[] := case
    when p_filter ? 'status' then array[p_filter ->> 'status']
    when p_action = 'cancel' then array['queued', 'running', 'error']
    when p_job_ids is not null then array['error', 'cancelled']
    else array['error'] end;
  v_status text;
  v_page bigint[];
  v_found bigint[];
  v_all bigint[] := '{}'::bigint[];
begin
  if p_job_ids is not null then
    return array(
      select j.id from public.giftcard_jobs j
       where j.id = any (p_job_ids) and j.id > p_after and j.status = any (v_statuses)
         and public.giftcard_fits(j, p_filter)
       order by j.id limit p_limit);
  end if;
  foreach v_status in array v_statuses loop
    v_found := '{}'::bigint[];
    loop
      v_page := public.giftcard_find_jobs(
        p_filter || jsonb_build_object('status', v_status), coalesce(v_found[cardinality(v_found)], p_after),
        least(1000, p_limit - cardinality(v_found)), true);
      v_found := v_found || v_page;
      exit when cardinality(v_page) < 1000 or cardinality(v_found) >= p_limit;
    end loop;
    v_all := v_all || v_found;
  end loop;
  return array(select i from unnest(v_all) i order by i limit p_limit);
end $$;

-- Count what an operation would change: {count: up to 10,000, capped: there are more, by_stage: [{stage, count}], the
-- most first, at most 50}.
create function public.giftcard_preview_operation(
  p_action text, p_filter jsonb default '{}', p_job_ids bigint[] default null, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_filter jsonb := public.giftcard_check_operation(p_action, p_filter, p_job_ids, p_tenant_id);
  v_ids bigint[] := public.giftcard_operation_jobs(p_action, v_filter, p_job_ids, 0, 10001);
begin
  return jsonb_build_object(
    'count', least(cardinality(v_ids), 10000), 'capped', cardinality(v_ids) > 10000,
    'by_stage', (
      select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'count', s.count) order by s.count desc, s.stage),
                      '[]')
        from (select j.stage, count(*) as count from public.giftcard_jobs j where j.id = any (v_ids[:10000])
               group by j.stage order by count(*) desc, j.stage limit 50) s));
end $$;

-- Return an operation as the API shows it; p_with_ids: with the ids of the jobs that were selected.
create function public.giftcard_operation_json(o public.giftcard_operations, p_with_ids boolean default false)
returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(
    to_jsonb(o) - '{idempotency_key,created_by,job_ids,until_id}'::text[] || jsonb_build_object(
      'by', o.created_by, 'selected', cardinality(o.job_ids),
      'job_ids', case when p_with_ids then to_jsonb(o.job_ids[:1000]) end), 50000);
end $$;

-- Return an operation. GC404 for none.
create function public.giftcard_show_operation(p_id bigint, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('operation %s does not exist', p_id), 'operation_id');
  end if;
  return public.giftcard_operation_json(o, true);
end $$;

-- Return a page of operations, the newest first: {operations, older}: the id to continue from, null at the end.
-- p_state: only those in it.
create function public.giftcard_list_operations(
  p_state text default null, p_older bigint default null, p_limit integer default 50, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  o public.giftcard_operations;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for o in select * from public.giftcard_operations
            where (p_older is null or id < p_older) and (p_state is null or state = p_state)
              and (p_tenant_id is null or tenant_id = p_tenant_id)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_operation_json(o);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('operations', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
