-- Operations begin, are carried out by ticks, and are stopped. Each step is one transaction that changes jobs and moves
-- the cursor: killed anywhere, an operation goes on where it was, and no job is changed twice.

-- Create an operation, which the next tick begins. p_job_ids: selected jobs, instead of a filter; p_per_minute: the
-- rate of requeue_slowly. It changes only jobs that there are now: ended ones that have not changed since, others with
-- an id up to the highest. Called again with the same key, it returns the same operation with created false: the first
-- reply was lost. GC422: the key was used for another operation.
create function public.giftcard_create_operation(
  p_action text, p_reason text, p_filter jsonb default '{}', p_job_ids bigint[] default null,
  p_per_minute double precision default 10, p_idempotency_key text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_filter jsonb := public.giftcard_check_operation(p_action, p_filter, p_job_ids, p_tenant_id);
  v_rate double precision := case p_action when 'requeue_slowly' then coalesce(p_per_minute, 10) end;
  v_key text := coalesce(p_idempotency_key, gen_random_uuid()::text);
  v_preview jsonb := public.giftcard_preview_operation(p_action, v_filter, p_job_ids, p_tenant_id);
  o public.giftcard_operations;
begin
  if coalesce(btrim(p_reason), '') = '' or char_length(p_reason) > 1000 then
    perform public.giftcard_refuse('GC400', 'reason is required: why, in up to 1000 characters', 'reason');
  elsif not v_rate between 1e-3 and 60000 then
    perform public.giftcard_refuse('GC400', 'per_minute must be between 0.001 and 60000', 'per_minute');
  end if;
  insert into public.giftcard_operations
    (idempotency_key, action, tenant_id, filter, job_ids, reason, created_by, per_minute, total, capped, until_id,
     created_at)
  values (v_key, p_action, v_filter ->> 'tenant_id', v_filter, p_job_ids, p_reason, public.giftcard_actor(p_by), v_rate,
          (v_preview ->> 'count')::integer, (v_preview ->> 'capped')::boolean,
          coalesce((select max(id) from public.giftcard_jobs), 0), v_now)
  on conflict (coalesce(tenant_id, ''), idempotency_key) do nothing returning * into o;
  if found then
    -- The text of an error may name a person.
    perform public.giftcard_record_act(
      p_by, o.tenant_id, 'create_operation', 'operation ' || o.id, jsonb_build_object(
        'action', p_action, 'filter', v_filter - '{error,error_kind}'::text[], 'selected', cardinality(p_job_ids),
        'by_error', nullif(v_filter ?| '{error,error_kind}', false), 'total', o.total, 'capped', o.capped or null,
        'reason', p_reason), v_now);
    return public.giftcard_operation_json(o, true) || '{"created": true}';
  end if;
  select * into o from public.giftcard_operations
   where coalesce(tenant_id, '') = coalesce(v_filter ->> 'tenant_id', '') and idempotency_key = v_key;
  if (o.action, o.filter, o.job_ids, o.per_minute) is distinct from (p_action, v_filter, p_job_ids, v_rate) then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another operation', 'Idempotency-Key');
  end if;
  return public.giftcard_operation_json(o, true) || '{"created": false}';
end $$;

-- Stop an operation between two of its steps: what it has changed stays. One that is stopped already stays as it is.
-- GC404 for none, GC409 for one that has ended otherwise.
create function public.giftcard_stop_operation(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('operation %s does not exist', p_id), 'operation_id');
  elsif o.state in ('completed', 'failed') then
    perform public.giftcard_refuse(
      'GC409', format('operation %s is %s: there is nothing to stop', p_id, o.state), 'state');
  elsif o.state = 'running' then
    update public.giftcard_operations
       set state = 'stopped', stopped_because = 'stopped by ' || public.giftcard_actor(p_by), finished_at = v_now
     where id = p_id returning * into o;
    perform public.giftcard_record_act(
      p_by, o.tenant_id, 'stop_operation', 'operation ' || p_id,
      jsonb_build_object('matched', o.matched, 'changed', o.changed), v_now);
  end if;
  return public.giftcard_operation_json(o, true);
end $$;

-- Return why a slow requeue does not go on after its first job: 'waits' while that has not run, a sentence if it has
-- failed; null: it has completed.
create function public.giftcard_first_job_stops(p_job_id bigint) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs where id = p_job_id;
  return case when not found then format('job %s, which was to run first, is gone', p_job_id)
              when j.status = 'running' or j.status = 'queued' and j.attempts = 0 then 'waits'
              when j.status <> 'completed'
              then format('job %s ran first and is %s, not completed', p_job_id, j.status) end;
end $$;

-- Requeue or cancel the jobs of one step that fit the operation still once they are locked. p_first_in: seconds until
-- the first is due. Return the ids of those that were changed.
create function public.giftcard_change_operation_jobs(
  o public.giftcard_operations, p_found bigint[], p_first_in double precision, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids bigint[] := array(
    select j.id from public.giftcard_jobs j
     where j.id = any (p_found)
       and case when o.filter ? 'status' then j.status = o.filter ->> 'status'
                when o.action = 'cancel' then j.status in ('queued', 'error')
                     or j.status = 'running' and j.cancel_requested_at is null
                else j.status = 'error' or j.status = 'cancelled' and o.job_ids is not null end
       and (j.status in ('queued', 'running') or greatest(j.finished_at, j.updated_at) <= o.created_at)
       and public.giftcard_fits(j, o.filter)
     order by j.id for update);
begin
  if o.action = 'cancel' then
    perform public.giftcard_cancel_locked(v_ids, p_now);
  else
    perform public.giftcard_requeue_locked(v_ids, p_first_in, coalesce(60 / o.per_minute, 0), p_now);
  end if;
  perform public.giftcard_record_jobs(
    o.created_by, case o.action when 'cancel' then 'cancel' else 'requeue' end, v_ids,
    jsonb_build_object('operation', o.id), p_now);
  return v_ids;
end $$;

-- Carry out one step of an operation whose row is locked. Return whether the operation waits: for its first job, or,
-- at its rate, for time to pass. Slowly: only jobs that are due in the next two minutes are requeued, so that a stop
-- holds back the others.
create function public.giftcard_step(o public.giftcard_operations, p_limit integer, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_first boolean := o.action = 'requeue_slowly' and o.first_job_id is null;
  v_slowly boolean := o.action = 'requeue_slowly' and not v_first;
  v_from timestamptz := greatest(o.next_at, p_now);
  v_limit integer := case when v_first then 1 else p_limit end;
  v_stops text;
  v_found bigint[];
  v_ids bigint[];
  v_done boolean;
begin
  if v_slowly then
    v_stops := case when o.next_at is null then public.giftcard_first_job_stops(o.first_job_id) end;
    v_limit := greatest(0, least(p_limit, floor(
      extract(epoch from p_now + interval '2 minutes' - v_from)::double precision * o.per_minute / 60) + 1))::integer;
    if v_stops = 'waits' or v_stops is null and v_limit < 1 then
      update public.giftcard_operations set last_at = p_now where id = o.id;
      return true;
    elsif v_stops is not null then
      update public.giftcard_operations
         set state = 'stopped', stopped_because = v_stops, last_at = p_now, finished_at = p_now where id = o.id;
      return false;
    end if;
  end if;
  v_found := public.giftcard_operation_jobs(o.action, o.filter, o.job_ids, o.after_id, v_limit);
  v_done := cardinality(v_found) < v_limit or v_found[cardinality(v_found)] >= o.until_id;
  v_found := array(select i from unnest(v_found) i where i <= o.until_id order by i);
  v_ids := public.giftcard_change_operation_jobs(o, v_found, extract(epoch from v_from - p_now), p_now);
  update public.giftcard_operations
     set matched = matched + cardinality(v_found), changed = changed + cardinality(v_ids), last_at = p_now,
         after_id = coalesce(v_found[cardinality(v_found)], after_id),
         first_job_id = case when v_first then v_ids[1] else first_job_id end,
         next_at = case when v_slowly then v_from + cardinality(v_ids) * make_interval(secs => 60 / per_minute) end,
         state = case when v_done then 'completed' else state end,
         finished_at = case when v_done then p_now end
   where id = o.id;
  return v_first and v_ids <> '{}' and not v_done;
end $$;

-- Carry out one step of the operation that has waited longest: up to p_limit jobs. p_skip: operations that wait. Return
-- {id, state, matched, changed: its sums, waits: nothing can be done now}; null: no operation is left. An operation
-- whose step fails has failed, with the error; its earlier steps stay.
create function public.giftcard_step_operation(
  p_limit integer default 500, p_skip bigint[] default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_waits boolean := false;
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where state = 'running' and id <> all (coalesce(p_skip, '{}'))
   order by last_at nulls first, id limit 1 for update skip locked;
  if not found then
    return null;
  end if;
  begin
    v_waits := public.giftcard_step(o, least(greatest(coalesce(p_limit, 500), 1), 500), v_now);
  exception when others then
    if public.giftcard_is_unavailable(sqlstate) then
      raise;
    end if;
    update public.giftcard_operations
       set state = 'failed', error = public.giftcard_error_text(sqlstate, sqlerrm), last_at = v_now, finished_at = v_now
     where id = o.id;
  end;
  select * into o from public.giftcard_operations where id = o.id;
  return jsonb_build_object(
    'id', o.id, 'state', o.state, 'matched', o.matched, 'changed', o.changed, 'waits', v_waits);
end $$;
