-- What does not move, and why. Each function returns rows of giftcard_stuck_thing, at most 21 of each kind.

create type public.giftcard_stuck_thing as (
  kind text,
  subject text,          -- what it is, like "job 7" or "12 jobs of email"
  stage text,
  count bigint,
  capped boolean,        -- there are more than were counted
  since timestamptz,
  reason text,           -- a stable name, as that of giftcard_waiting_for where it waits for that
  why text,
  job_id bigint,         -- the job, or an example
  tenant_id text,
  name text              -- the id of what is no job: order, schedule, faulty row, circuit
);

-- Return running jobs whose lease has ended; and queues whose first job has been due for p_due_for, with the reason why
-- that one does not run: what holds for it holds for those behind it. p_stages, p_missing: as in giftcard_waiting_for.
create function public.giftcard_stuck_queues(
  p_due_for interval, p_stages jsonb, p_missing jsonb, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  (select 'killed', 'job ' || k.id, k.stage, 1::bigint, false,
          case when isfinite(k.lease_expires_at) then k.lease_expires_at end,
          case when w.found ->> 'by' is not null then 'all_paused'
               when w.found ->> 'until' is not null then 'passed_over' else 'killed' end,
          w.found ->> 'text', k.id, k.tenant_id, null::text
     from (select j.* from public.giftcard_jobs j
            where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= p_now
            order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 21) k
    cross join lateral (select public.giftcard_waiting_for_take_over(k.*::public.giftcard_jobs, p_now) as found) w)
  union all
  (select 'due', 'queue ' || h.circuit, h.stage, d.n, d.n = 1000, h.head_at,
          w.found ->> 'reason', w.found ->> 'text', f.id, f.tenant_id, h.circuit
     from (select * from public.giftcard_queue_heads(p_stages, p_now) q
            where q.head_at <= p_now - p_due_for order by q.head_at, q.circuit limit 21) h
    cross join lateral (
      select count(*) as n from (
        select from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
          select from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
             and j.scheduled_at <= p_now - p_due_for limit 1000) a
         limit 1000) c) d
    cross join lateral (
      select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
        select j.* from public.giftcard_jobs j
         where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
         order by j.scheduled_at, j.id limit 1) o
       order by o.scheduled_at, o.id limit 1) f
    cross join lateral (
      select public.giftcard_waiting_for(f.*::public.giftcard_jobs, p_stages, p_missing, p_now) as found) w)
$$;

-- Return jobs that have snoozed for p_snoozed_for, among the next 200 of each queue: since the first of their runs that
-- is kept.
create function public.giftcard_stuck_snoozes(p_snoozed_for interval, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select 'snoozed', 'job ' || s.id, s.stage, 1::bigint, false, r.started_at, 'snoozed',
         coalesce(left(s.last_error, 500), 'its handler snoozes'), s.id, s.tenant_id, null::text
    from (select * from public.giftcard_queue_heads('{}', p_now) limit 200) h
   cross join lateral (
     select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
       select j.* from public.giftcard_jobs j
        where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane and j.scheduled_at > p_now
        order by j.scheduled_at, j.id limit 200) o
      order by o.scheduled_at, o.id limit 200) s
   cross join lateral (
     select f.started_at from public.giftcard_job_history f where f.job_id = s.id order by f.run_no limit 1) r
   where s.run_no > 0 and r.started_at <= p_now - p_snoozed_for
     and 'SNOOZED' = (select l.result from public.giftcard_job_history l
                       where l.job_id = s.id order by l.run_no desc limit 1)
   order by r.started_at, s.id limit 21
$$;

-- Return the dead letters that do not revive, by stage, among the oldest 1,000 of each; and rows that work fails on.
create function public.giftcard_stuck_rows(p_now timestamptz) returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive stages as (
    (select j.stage from public.giftcard_jobs j where j.status = 'error' order by j.stage limit 1)
    union all
    select n.stage from stages s cross join lateral (
      select j.stage from public.giftcard_jobs j where j.status = 'error' and j.stage > s.stage
       order by j.stage limit 1) n)
  (select 'dead', 'dead letters of ' || d.stage, d.stage, count(*), bool_or(d.seen = 1000), min(d.finished_at), 'dead',
          'they do not revive: they wait for a person to requeue or cancel them', max(d.id), null::text, null::text
     from (select * from stages limit 200) s cross join lateral (
       select f.*, count(*) over () as seen from (
         select j.* from public.giftcard_jobs j where j.status = 'error' and j.stage = s.stage
          order by j.finished_at, j.id limit 1000) f) d
    where d.revive_at is null group by d.stage order by min(d.finished_at), d.stage limit 21)
  union all
  (select 'faulty', f.kind || ' ' || left(f.row_id, 100), null, 1::bigint, false, f.first_at, 'faulty',
          f.error || case when f.skip_until > p_now
                          then '; ticks pass over it until ' || public.giftcard_time_text(f.skip_until) else '' end,
          case when f.kind = 'job' and f.row_id ~ '^[0-9]{1,18}$' then f.row_id::bigint end, null, f.row_id
     from public.giftcard_faulty_rows f
    where f.last_at > p_now - interval '24 hours' and public.giftcard_is_faulty(f, p_now)
    order by f.first_at, f.kind, f.row_id limit 21)
$$;

-- Return orders without a card, taken in before p_due_for, of which no job will run by itself, among the newest 1,000
-- of each tenant; and paused schedules, among the newest 10,000.
create function public.giftcard_stuck_orders(p_due_for interval, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive tenants as (
    (select o.tenant_id from public.giftcard_orders o order by o.tenant_id limit 1)
    union all
    select n.tenant_id from tenants t cross join lateral (
      select o.tenant_id from public.giftcard_orders o where o.tenant_id > t.tenant_id
       order by o.tenant_id limit 1) n)
  (select 'order', 'order ' || o.correlation_id, l.stage, 1::bigint, false, o.created_at, 'no_job',
          'it has no card, and no job of it is queued or runs' || coalesce(
            format('; job %s of %s is %s', l.id, l.stage, l.status), '; no job of its flow is left'),
          l.id, o.tenant_id, o.correlation_id
     from (select * from tenants limit 200) t cross join lateral (
       select r.* from public.giftcard_orders r where r.tenant_id = t.tenant_id and r.created_at <= p_now - p_due_for
        order by r.created_at desc limit 1000) o
     left join lateral (
       select j.id, j.stage, j.status from public.giftcard_jobs j
        where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
          and j.status in ('error', 'cancelled') and not public.giftcard_is_webhook(j.stage)
        order by j.id desc limit 1) l on true
    where o.cancelled_at is null
      and not exists (select from public.giftcard_cards c
                       where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id)
      and not exists (select from public.giftcard_jobs j
                       where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                         and (j.status in ('queued', 'running') or j.status = 'error' and j.revive_at is not null)
                         and not public.giftcard_is_webhook(j.stage))
    order by o.created_at, o.correlation_id limit 21)
  union all
  (select 'schedule', 'schedule ' || s.id, s.stage, 1::bigint, false, s.paused_at, 'schedule_paused',
          left(concat('it is paused by ', s.paused_by, ': ' || s.pause_reason), 500), null, s.tenant_id, s.id::text
     from (select * from public.giftcard_schedules order by id desc limit 10000) s
    where s.paused_at is not null order by s.paused_at, s.id limit 21)
$$;

-- Return all that does not move, the worst first: {stuck: [giftcard_stuck_thing], truncated: the kinds of which only
-- the oldest 20 are listed, now}. p_due_seconds: how long a job may be due, or an order without a job;
-- p_snoozed_seconds: how long one may snooze. p_stages, p_missing: as in giftcard_waiting_for.
create function public.giftcard_stuck(
  p_due_seconds double precision default 300, p_snoozed_seconds double precision default 3600,
  p_stages jsonb default null, p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_due_for interval := make_interval(secs => least(greatest(coalesce(p_due_seconds, 300), 0), 31536000));
  v_snoozed_for interval := make_interval(secs => least(greatest(coalesce(p_snoozed_seconds, 3600), 0), 31536000));
  v_worst constant text[] := array['killed', 'due', 'order', 'faulty', 'dead', 'snoozed', 'schedule'];
begin
  return (
    with things as (
      select * from public.giftcard_stuck_queues(v_due_for, p_stages, p_missing, v_now)
      union all
      select * from public.giftcard_stuck_orders(v_due_for, v_now)
      union all
      select * from public.giftcard_stuck_rows(v_now)
      union all
      select * from public.giftcard_stuck_snoozes(v_snoozed_for, v_now)),
    numbered as (
      select t.*, row_number() over (partition by t.kind order by t.since nulls first, t.subject) as number
        from things t)
    select jsonb_build_object(
      'now', v_now,
      'stuck', coalesce(
        jsonb_agg(public.giftcard_readable_row(to_jsonb(n) - 'number', 20000)
                  order by array_position(v_worst, n.kind), n.number) filter (where n.number <= 20), '[]'),
      'truncated', coalesce(jsonb_agg(n.kind order by n.kind) filter (where n.number = 21), '[]'))
      from numbered n);
end $$;
