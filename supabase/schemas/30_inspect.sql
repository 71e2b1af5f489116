-- Inspection. Everything here is bounded, so that it stays cheap with millions of rows.

-- Count jobs by stage and status, each up to p_cap.
create function public.giftcard_counts(p_cap integer default 1000) returns table (stage text, status text, jobs bigint)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with recursive ended as (
    (select j.status, j.stage from public.giftcard_jobs j
      where j.status in ('completed', 'error', 'cancelled') order by j.status, j.stage limit 1)
    union all
    select n.status, n.stage from ended e cross join lateral (
      select j.status, j.stage from public.giftcard_jobs j
       where j.status in ('completed', 'error', 'cancelled') and (j.status, j.stage) > (e.status, e.stage)
       order by j.status, j.stage limit 1) n), counts as (
    select e.stage, e.status, n.jobs from ended e cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j
         where j.status in ('completed', 'error', 'cancelled') and j.status = e.status and j.stage = e.stage
           limit p_cap) c) n
    union all
    select h.stage, 'queued', n.jobs from public.giftcard_queue_heads('{}', clock_timestamp()) h cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j where j.status = 'queued' and j.circuit = h.circuit limit p_cap) c) n
    union all
    select r.stage, 'running', count(*) from (
      select j.stage from public.giftcard_jobs j where j.status = 'running' limit p_cap) r group by r.stage)
  select c.stage, c.status, least(sum(c.jobs), p_cap)::bigint from counts c group by c.stage, c.status
    order by c.stage, c.status limit 1000
$$;

-- Return runs whose lease has ended and jobs that have been due for p_due_for at least, each with the reason, the
-- longest first. more: rows follow the last one; p_after_since and p_after_id, its values, return them.
create function public.giftcard_stuck_jobs(
  p_due_for interval default '5 minutes', p_limit integer default 100, p_now timestamptz default null,
  p_after_since timestamptz default null, p_after_id bigint default null)
returns table (id bigint, stage text, status text, attempts integer, since timestamptz, lock_owner text, why text,
               last_error text, more boolean)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set jit = off as $$
  select s.*, count(*) over () > least(p_limit, 1000) from (
    (select j.id, j.stage, j.status, j.attempts, j.lease_expires_at, j.lock_owner,
     'its function was killed: the next tick takes it over', j.last_error
       from public.giftcard_jobs j
      where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= coalesce(p_now,
        clock_timestamp())
        and (p_after_id is null
             or (coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id)
                > (coalesce(p_after_since, '-infinity'::timestamptz), p_after_id))
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit least(p_limit, 1000) + 1)
    union all
    (select j.id, j.stage, j.status, j.attempts, j.scheduled_at, null,
            case when c.state <> 'closed' then 'circuit ' || j.circuit || ' is ' || c.state
                 when p.stage = '*' then concat('everything is paused by ', p.paused_by, ': ' || p.reason)
                 when p.stage is not null then concat('stage paused by ', p.paused_by, ': ' || p.reason)
                 else 'due, but no tick has taken it' end, j.last_error
       from public.giftcard_jobs j
       left join public.giftcard_circuits c on c.circuit = j.circuit
       left join lateral (
         select * from public.giftcard_stages g where g.stage in ('*', j.stage) and g.paused_at is not null
           order by g.stage limit 1) p on true
      where j.status = 'queued' and j.scheduled_at <= coalesce(p_now, clock_timestamp()) - p_due_for
        and (p_after_id is null
             or (j.scheduled_at, j.id) > (coalesce(p_after_since, '-infinity'::timestamptz), p_after_id))
      order by j.scheduled_at, j.id limit least(p_limit, 1000) + 1)) as s(id, stage, status, attempts, since,
                                                                          lock_owner, why, last_error)
   order by coalesce(s.since, '-infinity'::timestamptz), s.id limit least(p_limit, 1000)
$$;

-- Return jobs that need many attempts (two at least), those with the most first. more: rows follow the last one;
-- p_after_attempts and p_after_id, its values, return them.
create function public.giftcard_jobs_with_many_attempts(
  p_at_least integer default 3, p_limit integer default 100, p_after_attempts integer default null,
  p_after_id bigint default null)
returns table (id bigint, stage text, status text, attempts integer, max_attempts integer, run_no integer,
               revivals integer, scheduled_at timestamptz, last_error text, more boolean)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select f.*, count(*) over () > least(p_limit, 1000) from (
    select j.id, j.stage, j.status, j.attempts, j.max_attempts, j.run_no, j.revivals, j.scheduled_at, j.last_error
      from public.giftcard_jobs j
     where j.status in ('queued', 'running', 'error') and j.attempts >= 2 and j.attempts >= p_at_least
       and (p_after_id is null or j.attempts <= p_after_attempts
                                  and (j.attempts < p_after_attempts or j.id > p_after_id))
     order by j.attempts desc, j.id limit least(p_limit, 1000) + 1) f
   order by f.attempts desc, f.id limit least(p_limit, 1000)
$$;

-- Return a page of the circuits that are not closed or have failures, by name: {circuits, older: the name to continue
-- from, null at the end}.
create function public.giftcard_list_circuits(
  p_older text default null, p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_page jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  select coalesce(jsonb_agg(jsonb_build_object(
      'circuit', c.circuit, 'state', case when c.state = 'open' and c.open_until <= coalesce(p_now, clock_timestamp())
                                          then 'half_open' else c.state end,
      'failures', c.failures, 'changed_at', nullif(c.changed_at, '-infinity'), 'open_until', c.open_until)
    order by c.circuit), '[]') into v_page from (
      select * from public.giftcard_circuits
       where (failures > 0 or state <> 'closed') and (p_older is null or circuit > p_older)
       order by circuit limit v_limit + 1) c;
  if jsonb_array_length(v_page) <= v_limit then
    return jsonb_build_object('circuits', v_page, 'older', null);
  end if;
  v_page := v_page - v_limit;
  return jsonb_build_object('circuits', v_page, 'older', v_page -> -1 -> 'circuit');
end $$;

-- Return the whole picture in one call; truncated: the names of its lists that are cut. p_stages: as in
-- giftcard_begin_tick, what this code can run; null: unknown here, so that only a pause parks.
create function public.giftcard_status(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_circuits jsonb := public.giftcard_list_circuits(p_limit => 200, p_now => v_now);
  v_limits jsonb := public.giftcard_list_limits(p_limit => 200, p_now => v_now);
  v_truncated text[] := case when v_circuits ->> 'older' is null then '{}' else array['circuits'] end
                        || case when v_limits ->> 'older' is null then '{}' else array['limits'] end;
  v_status jsonb;
  v_list text;
  v_most integer;
begin
  v_status := jsonb_build_object(
    'now', v_now,
    'schema', public.giftcard_schema_version(),
    'counts', (select coalesce(jsonb_object_agg(s.stage, s.counts), '{}') from (
        select c.stage, jsonb_object_agg(c.status, c.jobs) as counts from public.giftcard_counts() c
          group by c.stage) s),
    'queues', (select coalesce(jsonb_agg(jsonb_build_object(
          'circuit', h.circuit, 'stage', h.stage, 'availability', h.availability,
          'oldest_due_seconds', case when isfinite(h.head_at) then greatest(0, extract(epoch from v_now - h.head_at))
                                     end,
          'next_at', h.head_at, 'opens_at', h.opens_at) order by h.circuit), '[]')
        from (select * from public.giftcard_queue_heads(p_stages, v_now) limit 201) h),
    'circuits', v_circuits -> 'circuits', 'limits', v_limits -> 'limits',
    'paused', (select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'by', left(s.paused_by, 500),
                                                            'reason', left(s.reason, 500), 'since', s.paused_at)
                                         order by s.stage), '[]')
        from (select * from public.giftcard_stages where paused_at is not null order by stage limit 201) s),
    'dead_letters', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', d.id, 'stage', d.stage, 'attempts', d.attempts, 'revive_at', d.revive_at, 'finished_at', d.finished_at,
          'last_error', left(d.last_error, 500))), '[]')
        from (select * from public.giftcard_jobs where status = 'error' order by finished_at desc nulls last, id desc
              limit 21) d),
    'killed', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', k.id, 'stage', k.stage, 'attempts', k.attempts,
          'waiting_for', public.giftcard_waiting_for_take_over(k, v_now))), '[]')
        from (select * from public.giftcard_jobs
               where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) <= v_now
               order by coalesce(lease_expires_at, '-infinity'::timestamptz), id limit 21) k),
    'differences', (select coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(r), 20000)), '[]')
                      from public.giftcard_reconcile(null, false, 21) r),
    'precision', public.giftcard_precision(3600, v_now),
    'waking', public.giftcard_waking(v_now),
    'ticks',
    (select coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(t) - array[
        'key', 'stages', 'claim_key', 'claim_ids', 'claim_interrupted', 'served', 'limits', 'cursors', 'wake'],
        100000)), '[]')
        from (select * from public.giftcard_ticks order by id desc limit 10) t));
  -- Of these lists one more row was read than they hold.
  for v_list, v_most in values ('queues', 200), ('paused', 200), ('dead_letters', 20), ('killed', 20),
                               ('differences', 20) loop
    if jsonb_array_length(v_status -> v_list) > v_most then
      v_status := jsonb_set(v_status, array[v_list], (v_status -> v_list) - v_most);
      v_truncated := v_truncated || v_list;
    end if;
  end loop;
  return v_status || jsonb_build_object('truncated', v_truncated);
end $$;

-- Return the jobs of a flow, the newest first, also archived ones: those before the id p_older, at most p_limit.
create function public.giftcard_flow_jobs(
  p_tenant_id text, p_correlation_id text, p_older bigint, p_limit integer) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(select f.job from (
    (select j.id, jsonb_build_object(
         'id', j.id, 'stage', j.stage, 'dedup_key', j.dedup_key, 'status', j.status, 'attempts', j.attempts,
         'last_error', left(j.last_error, 500), 'scheduled_at', j.scheduled_at, 'revive_at', j.revive_at,
         'finished_at', j.finished_at, 'archived_at', null) as job
       from public.giftcard_jobs j
      where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and (p_older is null or j.id < p_older)
      order by j.id desc limit p_limit)
    union all
    (select a.id, (select jsonb_object_agg(m.key, m.value)
                     from jsonb_each(public.giftcard_archived_job_json(a)) m
                    where m.key in ('id', 'stage', 'dedup_key', 'status', 'attempts', 'last_error', 'scheduled_at',
                                    'revive_at', 'finished_at', 'archived_at'))
       from public.giftcard_jobs_archive a
      where a.tenant_id = p_tenant_id and a.correlation_id = p_correlation_id and (p_older is null or a.id < p_older)
      order by a.id desc limit p_limit)) f(id, job)
   order by f.id desc limit p_limit);
end $$;

-- Return where a flow stands: its jobs in order, also archived ones, the order, the payment and the card (last four
-- digits). Of many jobs these are the newest; older: the id to continue from with p_older, null at the end. An order
-- outlives its jobs. GC404 for an unknown flow.
create function public.giftcard_flow(
  p_tenant_id text, p_correlation_id text, p_older bigint default null, p_limit integer default 100) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 100), 1), 200);
  v_row jsonb;
  v_jobs jsonb[] := array[]::jsonb[];
  v_bytes integer := 0;
  v_more boolean := false;
begin
  foreach v_row in array public.giftcard_flow_jobs(p_tenant_id, p_correlation_id, p_older, v_limit + 1) loop
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_jobs), v_limit, v_bytes);
    exit when v_more;
    v_jobs := v_row || v_jobs;
  end loop;
  if cardinality(v_jobs) = 0 and p_older is null and not exists (
      select from public.giftcard_orders where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'jobs', to_jsonb(v_jobs), 'older', case when v_more then v_jobs[1] -> 'id' end,
    'order', (select public.giftcard_readable_row(jsonb_build_object(
                'amount', amount, 'currency', currency, 'locale', locale, 'free_of_charge', free_of_charge,
                'cancelled_at', cancelled_at, 'created_at', created_at), 20000)
                from public.giftcard_orders where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'payment', (select public.giftcard_readable_row(jsonb_build_object(
                  'reference', provider_ref, 'amount', amount, 'currency', currency, 'worth', worth,
                  'provider', provider, 'paid_at', created_at), 20000)
                  from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'card', (select public.giftcard_readable_row(jsonb_build_object(
               'last4', last4, 'amount', amount, 'balance', balance, 'currency', currency,
               'unpaid', unpaid, 'state', state, 'issued_at', created_at), 20000)
               from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id));
end $$;
