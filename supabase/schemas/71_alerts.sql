-- Alerts: the conditions that operators are notified of (71_notifications.sql).

create table public.giftcard_alerts (
  condition text collate "C" not null,
  since timestamptz not null,
  detail jsonb not null default '{}',
  newest timestamptz,
  resolved_at timestamptz,
  constraint giftcard_alerts_pkey primary key (condition)
);

comment on table public.giftcard_alerts is
  'One row is one condition that was found. It is deleted once its end, and an hour since the last alert, have passed.';
comment on column public.giftcard_alerts.condition is
  'dead_letters, circuit:<name>, no_tick, late:<stage>, books:<kind>, limit, denied_requests; more:<kind>: a list was '
  'cut; check_failed:<kind>: the conditions of that kind are unknown.';
comment on column public.giftcard_alerts.newest is 'dead_letters, books: when the newest of them came.';
comment on column public.giftcard_alerts.resolved_at is 'When it was over. null: it holds.';

-- Return the condition that there are dead letters older than five minutes. Occurrences of recurring schedules are not
-- counted: the next one comes anyway.
create function public.giftcard_dead_letters_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'dead_letters', min(d.oldest),
         jsonb_build_object('jobs', sum(d.jobs), 'at_least', bool_or(d.jobs >= 1000), 'stages', jsonb_agg(d.stage),
                            'newest', max(d.newest))
    from (select c.stage, count(*) as jobs, min(e.finished_at) as oldest, max(e.finished_at) as newest
            from public.giftcard_dead_stages() c cross join lateral (
              select j.finished_at from public.giftcard_jobs j
               where j.status = 'error' and j.stage = c.stage and j.trigger_type <> 'schedule'
                 and j.finished_at <= p_now - interval '5 minutes'
               order by j.finished_at desc limit 1000) e
           group by c.stage) d having count(*) > 0 order by 1 limit 1
$$;

-- Return a condition for each circuit that is not closed, up to 10,000.
create function public.giftcard_circuit_conditions()
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'circuit:' || c.circuit, c.changed_at,
         jsonb_build_object('circuit', c.circuit, 'open_until', c.open_until, 'cause', (
           select h.cause from public.giftcard_circuit_changes h where h.circuit = c.circuit
            order by h.id desc limit 1))
    from public.giftcard_circuits c where (c.failures > 0 or c.state <> 'closed') and c.state <> 'closed'
   order by c.circuit limit 10000
$$;

-- Return the condition that no tick came for minutes.
create function public.giftcard_no_tick_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  -- Found by the tick that follows, and by a status request while there is none.
  select 'no_tick', g.began, jsonb_build_object(
           'seconds', round(extract(epoch from g.ended - g.began)), 'error', coalesce(g.error, ''))
    from public.giftcard_newest_silence(p_now) g
   where g.silent and g.ended > p_now - interval '5 minutes' order by g.began limit 1
$$;

-- Return a condition for each stage with a due job that has waited for longer than p_late. p_stages: as in
-- giftcard_status.
create function public.giftcard_late_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'late:' || h.stage, min(h.head_at),
         jsonb_build_object('stage', h.stage, 'seconds', round(extract(epoch from p_now - min(h.head_at))))
    from public.giftcard_queue_heads(p_stages, p_now) h
   where h.availability <> 'parked' and isfinite(h.head_at) and h.head_at <= p_now - p_late
   group by h.stage order by h.stage limit 10000
$$;

-- Return a condition for each kind of difference between money and cards that is older than five minutes. spent: how
-- many of them are cards that were spent, at least in part: that money is gone.
create function public.giftcard_books_conditions(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'books:' || r.kind, min(r.since),
         jsonb_build_object('kind', r.kind, 'items', count(*), 'at_least', sum(count(*)) over () >= 1000,
                            'first', (array_agg(r.correlation_id order by r.since))[1], 'newest', max(r.since),
                            'spent', count(*) filter (where c.balance < c.amount))
    from public.giftcard_reconcile() r
    left join public.giftcard_cards c
      on r.kind in ('refunded_after_issue', 'disputed_after_issue', 'card_of_cancelled_order')
     and c.tenant_id = r.tenant_id and c.correlation_id = r.correlation_id
   where r.since <= p_now - interval '5 minutes' group by r.kind order by r.kind limit 100
$$;

-- Return the condition that the last ten ticks of the clock all stopped at a limit, with due jobs left.
create function public.giftcard_limit_condition(p_stages jsonb, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'limit', min(k.started_at), jsonb_build_object('ticks', count(*), 'stopped_because', max(k.stopped_because))
    from (select x.started_at, x.stopped_because from public.giftcard_ticks x
           where x.source = 'cron' and x.ended_at is not null order by x.id desc limit 10) k
  having count(*) = 10 and bool_and(k.stopped_because in ('limit', 'budget')) and exists (
    select from public.giftcard_queue_heads(p_stages, p_now) h where h.availability = 'ready' and h.head_at <= p_now)
   order by 1 limit 1
$$;

-- Return the condition that at least 100 wrong tokens and signatures came within the last ten minutes.
create function public.giftcard_denied_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'denied_requests', min(d.window_at), jsonb_build_object('requests', sum(d.requests + d.former_requests))
    from public.giftcard_denied_requests d
   where d.window_at > p_now - interval '5 minutes' and d.window_at <= p_now
  having sum(d.requests + d.former_requests) >= 100 order by 1 limit 1
$$;

-- Return the conditions of one kind that hold now, as rows of giftcard_alerts: the first 100; how many more is a
-- condition of its own, more:<kind>. A check that fails is the condition check_failed:<kind>: it stops no other kind.
create function public.giftcard_conditions_of(p_kind text, p_stages jsonb, p_late interval, p_now timestamptz)
returns public.giftcard_alerts[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  return (
    with found as (
      select * from public.giftcard_dead_letters_condition(p_now) where p_kind = 'dead_letters'
      union all
      select * from public.giftcard_circuit_conditions() where p_kind = 'circuit'
      union all
      select * from public.giftcard_no_tick_condition(p_now) where p_kind = 'no_tick'
      union all
      select * from public.giftcard_late_conditions(p_stages, p_late, p_now) where p_kind = 'late'
      union all
      select * from public.giftcard_books_conditions(p_now) where p_kind = 'books'
      union all
      select * from public.giftcard_limit_condition(p_stages, p_now) where p_kind = 'limit'
      union all
      select * from public.giftcard_denied_condition(p_now) where p_kind = 'denied_requests'
    ), numbered as (
      select f.*, row_number() over (order by f.condition) as n from found f
    ), listed as (
      -- A name that is too long for an index is cut.
      select case when length(condition) <= 300 then condition
                  else left(condition, 260) || '…' || md5(condition) end as condition,
             since, detail, (detail ->> 'newest')::timestamptz as newest
        from numbered where n <= 100
      union all
      select 'more:' || p_kind, min(since), jsonb_build_object('more', count(*)), null
        from numbered where n > 100 having count(*) > 0)
    select array_agg(row(condition, since, detail, newest, null)::public.giftcard_alerts) from listed);
exception when others then
  return array[row('check_failed:' || p_kind, p_now,
                   jsonb_build_object('sqlstate', sqlstate, 'error', left(sqlerrm, 200)), null, null
                  )::public.giftcard_alerts];
end $$;

-- Return the conditions that hold now: (condition, since, detail, newest). p_stages: as in giftcard_status; p_late: how
-- long a due job may wait.
create function public.giftcard_active_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb, newest timestamptz)
language sql stable security invoker set search_path = '' set jit = off as $$
  select c.condition, c.since, c.detail, c.newest
    from unnest(array['dead_letters', 'circuit', 'no_tick', 'late', 'books', 'limit', 'denied_requests']) k(kind)
   cross join lateral unnest(public.giftcard_conditions_of(k.kind, p_stages, p_late, p_now)) c
   order by c.condition limit 1000
$$;

-- Return the kind of a condition: circuit of circuit:<name> and of more:circuit.
create function public.giftcard_condition_kind(p_condition text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return split_part(regexp_replace(p_condition, '^more:', ''), ':', 1);
end $$;

-- Return a detail for a notification: an empty object if it is none.
create function public.giftcard_alert_detail(p_detail jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_detail) = 'object' then public.giftcard_readable(p_detail, 10000)
              else '{}'::jsonb end;
end $$;
