-- Many jobs at once, in bounded steps.

-- Queue jobs again, each with a whole new set of attempts: the k-th is due after p_first_in + (k - 1) ×
-- p_spread_seconds seconds. The caller holds their rows.
create function public.giftcard_requeue_locked(
  p_ids bigint[], p_first_in double precision, p_spread_seconds double precision, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = 0, last_error = null, revive_at = null, finished_at = null,
         cancel_requested_at = null, lease_id = null, lease_expires_at = null, updated_at = p_now,
         scheduled_at = p_now + make_interval(secs => p_first_in + p_spread_seconds * (array_position(p_ids, id) - 1))
   where id = any (p_ids);
end $$;

-- Return whether a job fits a filter, apart from its status: what giftcard_find_jobs asks, of a row that is locked.
create function public.giftcard_fits(j public.giftcard_jobs, p_filter jsonb) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return j.stage = coalesce(p_filter ->> 'stage', j.stage) and j.circuit = coalesce(p_filter ->> 'circuit', j.circuit)
     and j.tenant_id = coalesce(p_filter ->> 'tenant_id', j.tenant_id)
     and j.correlation_id = coalesce(p_filter ->> 'correlation_id', j.correlation_id)
     and (p_filter ->> 'error' is null or strpos(lower(j.last_error), lower(p_filter ->> 'error')) > 0)
     and (p_filter ->> 'error_kind' is null
          or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = p_filter ->> 'error_kind')
     and (p_filter ->> 'batch_id' is null or j.batch_id = (p_filter ->> 'batch_id')::bigint)
     and j.created_at >= coalesce((p_filter ->> 'created_after')::timestamptz, '-infinity')
     and (p_filter ->> 'created_before' is null or j.created_at < (p_filter ->> 'created_before')::timestamptz);
end $$;

-- Requeue by filter, one step: the next p_limit jobs with an id above p_after that are in error or cancelled and fit.
-- Going up by id, each is met once, whatever else moves; rows are waited for, not skipped, and have to fit still once
-- they are locked. Unless p_dry_run is false nothing changes. p_spread_seconds, p_first_in: as in
-- giftcard_requeue_locked. p_reason: why, for the audit.
-- Return {matched, requeued, ids, last_id (continue after it), done, dry_run}.
create function public.giftcard_requeue_jobs(
  p_filter jsonb, p_after bigint default 0, p_limit integer default 500, p_dry_run boolean default true,
  p_spread_seconds double precision default 0, p_first_in double precision default 0, p_reason text default null,
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 500), 1), 1000);
  v_status text := coalesce(p_filter ->> 'status', 'error');
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_found bigint[];
  v_ids bigint[] := '{}'::bigint[];
begin
  if v_status not in ('error', 'cancelled') then
    perform public.giftcard_refuse('GC400', 'only jobs in error or cancelled are requeued by filter', 'status');
  end if;
  v_found := public.giftcard_find_jobs(p_filter || jsonb_build_object('status', v_status), p_after, v_limit, true);
  if not coalesce(p_dry_run, true) then
    v_ids := array(
      select j.id from public.giftcard_jobs j
       where j.id = any (v_found) and j.status = v_status and public.giftcard_fits(j, p_filter)
       order by j.id for update);
    perform public.giftcard_requeue_locked(v_ids, p_first_in, p_spread_seconds, v_now);
    -- The text of the error may name a person.
    perform public.giftcard_record_jobs(p_by, 'requeue', v_ids, jsonb_build_object(
      'filter', p_filter - 'error', 'by_error', p_filter ->> 'error' is not null or null, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object(
    'matched', cardinality(v_found), 'requeued', cardinality(v_ids), 'ids', to_jsonb(v_ids),
    'last_id', v_found[cardinality(v_found)], 'done', cardinality(v_found) < v_limit,
    'dry_run', coalesce(p_dry_run, true));
end $$;

-- Requeue dead letters by stage, part of the error and age, the oldest first, due now, at most p_limit a call (repeat
-- it until matched is 0). Unless p_dry_run is false it only counts. p_reason: why, for the audit. Return {dry_run,
-- matched (up to p_limit), requeued}.
create function public.giftcard_requeue_dead_letters(
  p_stage text default null, p_error text default null, p_older_than interval default null,
  p_limit integer default 1000, p_dry_run boolean default true, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_dry_run boolean := coalesce(p_dry_run, true);
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and (p_stage is null or stage = p_stage)
       and (p_error is null or strpos(lower(last_error), lower(p_error)) > 0)
       and (p_older_than is null or finished_at <= v_now - p_older_than)
     order by finished_at, id limit least(coalesce(p_limit, 1000), 1000) for update skip locked);
begin
  if not v_dry_run then
    perform public.giftcard_requeue_locked(v_ids, 0, 0, v_now);
    perform public.giftcard_record_jobs(p_by, 'requeue', v_ids, jsonb_build_object(
      'filter', jsonb_build_object('stage', p_stage, 'older_than', p_older_than),
      'by_error', p_error is not null or null, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('dry_run', v_dry_run, 'matched', cardinality(v_ids),
                            'requeued', case when v_dry_run then 0 else cardinality(v_ids) end);
end $$;

-- Cancel what is left of a flow, and its order: queued and dead jobs at once; for running ones the request is recorded.
-- p_reason: why, for the audit. Return {tenant_id, correlation_id, cancelled, cancel_requested}: how many of each.
create function public.giftcard_cancel_flow(
  p_tenant_id text, p_correlation_id text, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select id from public.giftcard_jobs where tenant_id = p_tenant_id and correlation_id = p_correlation_id
      order by id for update);
  v_cancelled bigint;
  v_requested bigint;
begin
  if v_ids = '{}' then
    perform public.giftcard_refuse(
      'GC404', format('no job has the correlation id %s', p_correlation_id), 'correlation_id');
  end if;
  select count(*) filter (where status in ('queued', 'error')), count(*) filter (where status = 'running')
    into v_cancelled, v_requested from public.giftcard_jobs where id = any (v_ids);
  update public.giftcard_orders set cancelled_at = v_now
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and cancelled_at is null;
  if public.giftcard_cancel_locked(v_ids, v_now) > 0 or found then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'cancel_flow', 'flow ' || p_correlation_id,
      jsonb_build_object('jobs', v_cancelled + v_requested, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'cancelled', v_cancelled, 'cancel_requested', v_requested);
end $$;
