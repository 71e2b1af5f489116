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

-- Return runs whose lease has ended and jobs that have been due for p_due_for at least, each with the reason.
create function public.giftcard_stuck_jobs(
  p_due_for interval default '5 minutes', p_limit integer default 100, p_now timestamptz default null)
returns table (id bigint, stage text, status text, attempts integer, since timestamptz, lock_owner text, why text,
               last_error text)
language sql stable security invoker
set search_path = '' set enable_seqscan = off as $$
  select s.* from (
    (select j.id, j.stage, j.status, j.attempts, j.lease_expires_at, j.lock_owner,
     'its function was killed: the next tick takes it over', j.last_error
       from public.giftcard_jobs j
      where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= coalesce(p_now,
        clock_timestamp())
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit least(p_limit, 1000))
    union all
    (select j.id, j.stage, j.status, j.attempts, j.scheduled_at, null,
            case when c.state <> 'closed' then 'circuit ' || j.circuit || ' is ' || c.state
                 when p.stage = '*' then 'everything is paused by ' || p.paused_by || coalesce(': ' || p.reason, '')
                 when p.stage is not null then 'stage paused by ' || p.paused_by || coalesce(': ' || p.reason, '')
                 else 'due, but no tick has taken it' end, j.last_error
       from public.giftcard_jobs j
       left join public.giftcard_circuits c on c.circuit = j.circuit
       left join lateral (
         select * from public.giftcard_stages g where g.stage in ('*', j.stage) and g.paused_at is not null
           order by g.stage limit 1) p on true
      where j.status = 'queued' and j.scheduled_at <= coalesce(p_now, clock_timestamp()) - p_due_for
      order by j.scheduled_at, j.id limit least(p_limit, 1000))) as s(id, stage, status, attempts, since, lock_owner,
                                                                      why, last_error)
   order by s.since, s.id limit least(p_limit, 1000)
$$;

-- Return jobs that need many attempts (two at least), those with the most first.
create function public.giftcard_jobs_with_many_attempts(p_at_least integer default 3, p_limit integer default 100)
returns table (id bigint, stage text, status text, attempts integer, max_attempts integer, run_no integer,
               revivals integer, scheduled_at timestamptz, last_error text)
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select j.id, j.stage, j.status, j.attempts, j.max_attempts, j.run_no, j.revivals, j.scheduled_at, j.last_error
    from public.giftcard_jobs j
   where j.status in ('queued', 'running', 'error') and j.attempts >= 2 and j.attempts >= p_at_least
   order by j.attempts desc, j.id limit least(p_limit, 1000)
$$;

-- Return the whole picture in one call. p_stages: as in giftcard_begin_tick, what this code can run; null: unknown
-- here, so that only a pause parks.
create function public.giftcard_status(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return jsonb_build_object(
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
        from (select * from public.giftcard_queue_heads(p_stages, v_now) limit 200) h),
    'circuits', (select coalesce(jsonb_agg(jsonb_build_object(
          'circuit', c.circuit, 'state', case when c.state = 'open' and c.open_until <= v_now then 'half_open'
                                              else c.state end,
          'failures', c.failures, 'changed_at', nullif(c.changed_at, '-infinity'), 'open_until', c.open_until)
              order by c.circuit), '[]')
        from (select * from public.giftcard_circuits where failures > 0 or state <> 'closed' order by circuit
              limit 200) c),
    'paused', (select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'by', s.paused_by, 'reason', s.reason,
                                                            'since', s.paused_at) order by s.stage), '[]')
        from (select * from public.giftcard_stages where paused_at is not null order by stage limit 200) s),
    'dead_letters', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', d.id, 'stage', d.stage, 'attempts', d.attempts, 'revive_at', d.revive_at, 'finished_at', d.finished_at,
          'last_error', d.last_error)), '[]')
        from (select * from public.giftcard_jobs where status = 'error' order by finished_at desc nulls last, id desc
              limit 20) d),
    'paid_without_card', (select coalesce(jsonb_agg(to_jsonb(p)), '[]') from public.giftcard_paid_without_card(20) p),
    'precision', public.giftcard_precision(3600, v_now),
    'ticks',
    (select coalesce(jsonb_agg(to_jsonb(t) - '{key,stages,claim_key,claim_ids,claim_interrupted,served}'::text[]), '[]')
        from (select * from public.giftcard_ticks order by id desc limit 10) t));
end $$;

-- Return where a flow stands: its jobs in order, also archived ones, the payment and the card (last four digits). An
-- order outlives its jobs. GC404 for an unknown flow.
create function public.giftcard_flow(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_jobs jsonb;
begin
  select jsonb_agg(jsonb_build_object(
      'id', j.id, 'stage', j.stage, 'dedup_key', j.dedup_key, 'status', j.status, 'attempts', j.attempts,
      'last_error', j.last_error,
      'scheduled_at', j.scheduled_at, 'revive_at', j.revive_at, 'finished_at', j.finished_at,
      'archived_at', j.archived_at) order by j.id)
    into v_jobs from (
    (select id, stage, dedup_key, status, attempts::integer, last_error, scheduled_at, revive_at, finished_at,
     null::timestamptz as archived_at
       from public.giftcard_jobs where tenant_id = p_tenant_id and correlation_id = p_correlation_id order by id
         limit 100)
    union all
    (select r.id, r.stage, r.dedup_key, r.status, r.attempts, r.last_error, r.scheduled_at, r.revive_at, r.finished_at,
     a.archived_at
       from (select * from public.giftcard_jobs_archive
              where tenant_id = p_tenant_id and correlation_id = p_correlation_id order by id limit 100) a
      cross join jsonb_populate_record(null::public.giftcard_jobs, a.job) r)
     order by id limit 100) j;
  if v_jobs is null and not exists (select from public.giftcard_orders
                                    where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then
    perform public.giftcard_refuse(
      'GC404', format('no order has the correlation id %s', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'jobs', coalesce(v_jobs, '[]'),
    'payment', (select jsonb_build_object('amount', amount, 'currency', currency, 'provider', provider,
                                          'paid_at', created_at)
                  from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'card', (select jsonb_build_object('last4', last4, 'amount', amount, 'balance', balance, 'currency', currency,
                                       'state', state, 'issued_at', created_at)
               from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id));
end $$;
