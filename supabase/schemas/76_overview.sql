-- The overview: the first screen of the operators' page, in one call. All times are absolute: an answer changes only
-- when something happens.

create index giftcard_orders_by_time on public.giftcard_orders (created_at) include (currency, amount);
create index giftcard_payments_by_time on public.giftcard_payments (created_at) include (currency, amount)
    where correlation_id is not null;
create index giftcard_cards_by_time on public.giftcard_cards (created_at) include (currency, amount);

-- Return what happened since a time (null: the beginning of the day, in UTC): {since, orders, cards, mails, capped,
-- sums: [{currency, ordered, paid, issued}]}, in minor units, that of the most orders first. Of each kind the
-- newest 10,000 are read; capped: there may be more.
create function public.giftcard_overview_today(p_since timestamptz, p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_since timestamptz := coalesce(p_since, date_trunc('day', p_now, 'UTC'));
begin
  return (
    with moved as (
      (select 'order' as what, o.currency, o.amount from public.giftcard_orders o
        where o.created_at >= v_since and o.created_at <= p_now order by o.created_at desc limit 10000)
      union all
      (select 'payment', p.currency, p.amount from public.giftcard_payments p
        where p.correlation_id is not null and p.created_at >= v_since and p.created_at <= p_now
        order by p.created_at desc limit 10000)
      union all
      (select 'card', c.currency, c.amount from public.giftcard_cards c
        where c.created_at >= v_since and c.created_at <= p_now order by c.created_at desc limit 10000)),
    sums as materialized (
      select left(m.currency, 20) as currency, count(*) filter (where m.what = 'order') as orders,
             count(*) filter (where m.what = 'payment') as payments, count(*) filter (where m.what = 'card') as cards,
             coalesce(sum(m.amount) filter (where m.what = 'order'), 0) as ordered,
             coalesce(sum(m.amount) filter (where m.what = 'payment'), 0) as paid,
             coalesce(sum(m.amount) filter (where m.what = 'card'), 0) as issued
        from moved m group by 1),
    mails as (
      select count(*) as jobs from (
        select from public.giftcard_jobs j
         where j.status = 'completed' and j.stage = 'email' and j.finished_at >= v_since and j.finished_at <= p_now
         limit 10000) e)
    select jsonb_build_object(
        'since', v_since, 'orders', coalesce(sum(s.orders), 0), 'cards', coalesce(sum(s.cards), 0),
        'mails', (select m.jobs from mails m),
        'capped', greatest(sum(s.orders), sum(s.payments), sum(s.cards), (select m.jobs from mails m)) >= 10000,
        'sums', coalesce(jsonb_agg(jsonb_build_object(
            'currency', s.currency, 'ordered', s.ordered, 'paid', s.paid, 'issued', s.issued)
            order by s.orders desc, s.currency)
          filter (where s.currency is not null), '[]'))
      from (select * from sums order by orders desc, currency limit 200) s);
end $$;

-- Return the differences of the overview: how many (capped: 1,000 or more), and the five oldest.
create function public.giftcard_overview_differences() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with found as materialized (select r.*, row_number() over () as n from public.giftcard_reconcile() r)
    select jsonb_build_object(
        'count', count(*), 'capped', count(*) >= 1000,
        'lines', coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(f) - 'n', 20000) order by f.n)
                          filter (where f.n <= 5), '[]'))
      from found f);
end $$;

-- Return the overview. p_stages, p_missing: as in giftcard_waiting_for; p_since: when today began. Return {now, schema,
-- ticks: {last_good, newest, silent, silence_began, minutes}, stages, circuits, circuits_more, oldest_due, dead,
-- dead_more, killed, endpoints_off, differences: {count, capped, lines}, all_paused, today, runs: {minutes, hours},
-- starts, doctor: as giftcard_doctor returns it}.
create function public.giftcard_overview(
  p_stages jsonb default null, p_missing jsonb default null, p_since timestamptz default null,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_runs jsonb := public.giftcard_overview_runs(v_now);
begin
  return jsonb_build_object(
      'now', v_now, 'schema', public.giftcard_schema_version() -> 'version',
      'ticks', public.giftcard_overview_ticks(v_now),
      'stages', public.giftcard_overview_stages(p_stages, p_missing, v_runs -> 'stages', v_now),
      'oldest_due', public.giftcard_overview_oldest(p_stages, p_missing, v_now),
      'differences', public.giftcard_overview_differences(), 'all_paused', public.giftcard_pause_of('*'),
      'today', public.giftcard_overview_today(p_since, v_now),
      'runs', jsonb_build_object('minutes', v_runs -> 'minutes', 'hours', v_runs -> 'hours'),
      'starts', v_runs -> 'starts', 'doctor', public.giftcard_doctor(p_stages, v_now))
    || public.giftcard_overview_circuits(v_now) || public.giftcard_overview_dead()
    || public.giftcard_overview_stopped(v_now);
end $$;
