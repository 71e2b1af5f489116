-- Alerts: operators are notified of a condition once when it begins and once when it is over. Each notification is
-- stored, because ticks have no memory.

create table public.giftcard_alerts (
  condition text collate "C" not null,
  since timestamptz not null,
  detail jsonb not null default '{}',
  notified_at timestamptz,
  notified_through timestamptz,
  resolved_at timestamptz,
  sending_until timestamptz,
  constraint giftcard_alerts_pkey primary key (condition)
);

comment on table public.giftcard_alerts is
  'One row is one condition that was found. It is deleted once its end was notified.';
comment on column public.giftcard_alerts.condition is
  'dead_letters, circuit:<name>, no_tick, late:<stage>, paid_without_card, limit.';
comment on column public.giftcard_alerts.notified_at is 'When operators were last notified of it. null: not yet.';
comment on column public.giftcard_alerts.notified_through is 'dead_letters: when the newest of those notified died.';
comment on column public.giftcard_alerts.resolved_at is
  'When it was over; the notification of that is still to be sent.';
comment on column public.giftcard_alerts.sending_until is
  'A tick is sending the notification. After this time another one tries.';

-- Return the conditions that hold now: (condition, since, detail). p_stages: as in giftcard_status; p_late: how long a
-- due job may wait.
create function public.giftcard_active_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select t.* from (
    -- Occurrences of recurring schedules are not counted: the next one comes anyway.
    (select 'dead_letters', min(d.oldest), jsonb_build_object('jobs', sum(d.jobs), 'stages', jsonb_agg(d.stage),
                                                              'newest', max(d.newest))
       from (select c.stage, count(*) as jobs, min(e.finished_at) as oldest, max(e.finished_at) as newest
               from public.giftcard_dead_stages() c cross join lateral (
                 select j.finished_at from public.giftcard_jobs j
                  where j.status = 'error' and j.stage = c.stage and j.trigger_type <> 'schedule'
                    and j.finished_at <= p_now - interval '5 minutes'
                  order by j.finished_at desc limit 1000) e
              group by c.stage) d having count(*) > 0)
    union all
    (select 'circuit:' || c.circuit, c.changed_at,
     jsonb_build_object('circuit', c.circuit, 'open_until', c.open_until, 'cause', (
         select h.cause from public.giftcard_circuit_changes h where h.circuit = c.circuit order by h.id desc limit 1))
       from public.giftcard_circuits c where (c.failures > 0 or c.state <> 'closed') and c.state <> 'closed'
         order by c.circuit limit 100)
    union all
    -- Found by the tick that follows, and by a status request while there is none.
    (select 'no_tick', g.began, jsonb_build_object('seconds', round(extract(epoch from g.ended - g.began)))
       from (select n.started_at as began, coalesce(lead(n.started_at) over (order by n.id), p_now) as ended
               from (select id, started_at from public.giftcard_ticks order by id desc limit 20) n) g
      where g.ended - g.began > interval '3 minutes' and g.ended > p_now - interval '5 minutes' order by g.began desc
        limit 1)
    union all
    (select 'late:' || h.stage, min(h.head_at),
     jsonb_build_object('stage', h.stage, 'seconds', round(extract(epoch from p_now - min(h.head_at))))
       from public.giftcard_queue_heads(p_stages, p_now) h
      where h.availability <> 'parked' and isfinite(h.head_at) and h.head_at <= p_now - p_late group by h.stage
        order by h.stage limit 100)
    union all
    (select 'paid_without_card', min(p.paid_at), jsonb_build_object('orders', count(*), 'first', min(p.correlation_id))
       from public.giftcard_paid_without_card(100) p
         where p.paid_at <= p_now - interval '5 minutes' having count(*) > 0)
    union all
    (select 'limit', min(k.started_at), jsonb_build_object('ticks', count(*), 'stopped_because', max(k.stopped_because))
       from (select x.started_at, x.stopped_because from public.giftcard_ticks x
             where x.source = 'cron' and x.ended_at is not null order by x.id desc limit 10) k
     having count(*) = 10 and bool_and(k.stopped_because in ('limit', 'budget')) and exists (
         select from public.giftcard_queue_heads(p_stages, p_now) h
           where h.availability = 'ready' and h.head_at <= p_now))) as t(condition, since, detail)
   order by t.condition limit 1000
$$;

-- Compare the active conditions with those notified, and return the notifications to send now: [{condition, kind:
-- 'raised'|'repeated'|'resolved', since, detail}]. Of two ticks at once one gets them, for a minute: unless
-- giftcard_record_notifications confirms them, the next check returns them again. Dead letters: only those not notified
-- yet, at most once an hour; again after p_repeat_hours while any is left.
create function public.giftcard_check_alerts(
  p_stages jsonb, p_late_seconds double precision default 900, p_repeat_hours double precision default 24,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_conditions text[];
  v_due jsonb;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  with found as (
    insert into public.giftcard_alerts (condition, since, detail)
    select t.condition, t.since, t.detail from public.giftcard_active_conditions(p_stages,
      make_interval(secs => p_late_seconds), v_now) t
    on conflict (condition) do update set detail = excluded.detail, resolved_at = null
    returning condition)
  select coalesce(array_agg(condition), '{}') into v_conditions from found;
  -- What ended before it was notified needs no notification.
  delete from public.giftcard_alerts where notified_at is null and condition <> all (v_conditions);
  update public.giftcard_alerts set resolved_at = v_now where resolved_at is null and condition <> all (v_conditions);
  with due as (
    update public.giftcard_alerts a set sending_until = v_now + interval '1 minute'
     where (a.sending_until is null or a.sending_until <= v_now)
       and (a.notified_at is null or a.resolved_at is not null
            or a.notified_at <= v_now - make_interval(secs => p_repeat_hours * 3600)
            or a.condition = 'dead_letters' and a.notified_at <= v_now - interval '1 hour'
            and (a.detail ->> 'newest')::timestamptz > a.notified_through)
    returning a.*)
  select coalesce(jsonb_agg(jsonb_build_object(
      'condition', d.condition, 'since', d.since, 'detail', d.detail,
      'kind', case when d.resolved_at is not null then 'resolved' when d.notified_at is null then 'raised'
                   else 'repeated' end) order by d.condition), '[]')
    into v_due from due d;
  return v_due;
end $$;

-- Record that operators were notified of these, as giftcard_check_alerts returned them. Resolved conditions are
-- deleted.
create function public.giftcard_record_notifications(p_notified jsonb, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  delete from public.giftcard_alerts a
   using jsonb_array_elements(p_notified) t where a.condition = t ->> 'condition' and t ->> 'kind' = 'resolved'
       and a.resolved_at is not null;
  update public.giftcard_alerts a
     set notified_at = coalesce(p_now, clock_timestamp()), notified_through = (t -> 'detail' ->> 'newest')::timestamptz,
         sending_until = null
    from jsonb_array_elements(p_notified) t where a.condition = t ->> 'condition' and t ->> 'kind' <> 'resolved';
end $$;

-- Return the conditions found and not over: [{condition, since, notified_at, detail}].
create function public.giftcard_active_alerts() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(jsonb_build_object('condition', condition, 'since', since, 'notified_at', notified_at,
                                               'detail', detail) order by since), '[]')
    from (select * from public.giftcard_alerts where resolved_at is null order by since limit 200) a
$$;
