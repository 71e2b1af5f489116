-- The report of a day: what became of one tenant's orders from one midnight to the next, in UTC. It holds no personal
-- data.

create table public.giftcard_reports (
  tenant_id text collate "C" not null,
  day date not null,
  made_at timestamptz not null,
  report jsonb not null,
  constraint giftcard_reports_pkey primary key (tenant_id, day)
);
create index giftcard_reports_by_day on public.giftcard_reports (day, tenant_id);

comment on table public.giftcard_reports is 'One row is the report of one tenant''s day, as it was last made.';

create index giftcard_orders_by_day on public.giftcard_orders (tenant_id, created_at);
create index giftcard_payments_by_day on public.giftcard_payments (tenant_id, created_at);
create index giftcard_cards_by_day on public.giftcard_cards (tenant_id, created_at);
-- Holds only runs that have failed: a successful run does not pay for it.
create index giftcard_job_history_failures on public.giftcard_job_history (finished_at)
    where result in ('FAILED', 'INTERRUPTED');

-- Sum orders, payments and cards created between two times, by currency: counts, and amounts in minor units. The source
-- tables keep their rows also when a customer is erased or jobs are pruned.
create function public.giftcard_report_money(p_tenant_id text, p_from timestamptz, p_to timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(jsonb_agg(to_jsonb(c) order by c.currency), '[]') from (
    select m.currency,
           count(*) filter (where m.what = 'order') as orders,
           coalesce(sum(m.amount) filter (where m.what = 'order'), 0) as orders_amount,
           count(*) filter (where m.what = 'payment') as payments,
           coalesce(sum(m.amount) filter (where m.what = 'payment'), 0) as payments_amount,
           count(*) filter (where m.what = 'card') as cards,
           coalesce(sum(m.amount) filter (where m.what = 'card'), 0) as cards_amount
      from (
        select 'order' as what, currency, amount from public.giftcard_orders
         where tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to
        union all
        select 'payment', currency, amount from public.giftcard_payments
         where correlation_id is not null and tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to
        union all
        select 'card', currency, amount from public.giftcard_cards
         where tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to) m
     group by m.currency) c
$$;

-- Return what an error is grouped by: its type, and its message up to the first word that may name a person, a host or
-- an order.
create function public.giftcard_error_reason(p_error text) returns text
language sql immutable security invoker set search_path = '' as $$
  select coalesce(left(substring(p_error from '^[A-Za-z_][A-Za-z0-9_]*(?::(?: (?:[a-z]+|[45][0-9]{2})(?![^ :,;]))+)?'),
                       120), 'unknown')
$$;

-- Return what failed between two times, by stage and reason, the most frequent 200, and the totals of all. A failed run
-- was retried if the job's next attempt belongs to the same round, and became a dead letter if a new round began after
-- it, or would. A dead letter that never ran (a message that no job could be made of) counts as a failure too.
create function public.giftcard_report_failures(
  p_tenant_id text, p_from timestamptz, p_to timestamptz, out rows jsonb, out totals jsonb)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  with failed as (
    select h.stage, public.giftcard_error_reason(h.error) as reason,
           coalesce(n.attempt, case when j.run_no > h.run_no then j.attempts
                                    when j.status = 'queued' then j.attempts + 1
                                    when coalesce(j.status, a.job ->> 'status') = 'error' then 1 end) as next_attempt
      from public.giftcard_job_history h
      left join public.giftcard_jobs j on j.id = h.job_id
      left join public.giftcard_jobs_archive a on a.id = h.job_id and j.id is null
      left join public.giftcard_job_history n on n.job_id = h.job_id and n.run_no = h.run_no + 1
     where h.result in ('FAILED', 'INTERRUPTED') and h.finished_at >= p_from and h.finished_at < p_to
       and coalesce(j.tenant_id, a.tenant_id) = p_tenant_id
       -- A run that an operator's UPDATE took away has not failed: it was not settled.
       and h.lease_id is not null
    union all
    select j.stage, public.giftcard_error_reason(j.last_error), 1
      from public.giftcard_jobs j
     where j.status = 'error' and j.run_no = 0 and j.finished_at >= p_from and j.finished_at < p_to
       and j.tenant_id = p_tenant_id), counted as (
    select f.stage, f.reason, count(*) as failures, count(*) filter (where f.next_attempt > 1) as retries,
           count(*) filter (where f.next_attempt = 1) as dead_letters
      from failed f group by f.stage, f.reason)
  select (select coalesce(jsonb_agg(to_jsonb(t) order by t.failures desc, t.stage, t.reason), '[]')
            from (select * from counted c order by c.failures desc, c.stage, c.reason limit 200) t),
         jsonb_build_object('failures', coalesce(sum(failures), 0), 'retries', coalesce(sum(retries), 0),
                            'dead_letters', coalesce(sum(dead_letters), 0))
    into rows, totals
    from counted;
end $$;

-- Sum the differences between money and cards that are from before p_to, by kind and currency: see giftcard_reconcile.
create function public.giftcard_report_differences(p_tenant_id text, p_to timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(jsonb_agg(to_jsonb(d) order by d.kind, d.currency), '[]') from (
    select r.kind, r.currency, count(*) as items, sum(r.amount) as amount
      from public.giftcard_reconcile(p_tenant_id) r where r.since < p_to group by r.kind, r.currency) d
$$;

-- Make the report of a tenant's day and store it; made again it replaces the former one. p_day null: yesterday, by the
-- database's clock. A day that is not over gives what there is so far, with complete: false. p_by: the operator whose
-- act it is; null: a job makes it, which the audit leaves out.
create function public.giftcard_make_report(
  p_tenant_id text, p_day date default null, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_today date := (v_now at time zone 'UTC')::date;
  v_day date := coalesce(p_day, v_today - 1);
  v_from timestamptz;
  v_to timestamptz;
  v_money jsonb;
  v_differences jsonb;
  v_days jsonb;
  v_report jsonb;
  f record;
begin
  if coalesce(p_tenant_id, '') = '' then
    perform public.giftcard_refuse('GC400', 'tenant_id must be given', 'tenant_id');
  elsif v_day not between date '2000-01-01' and v_today then
    perform public.giftcard_refuse(
      'GC400', format('day must lie between 2000-01-01 and today, %s in UTC', v_today), 'day');
  end if;
  v_from := v_day::timestamp at time zone 'UTC';
  v_to := (v_day + 1)::timestamp at time zone 'UTC';
  v_money := public.giftcard_report_money(p_tenant_id, v_from, v_to);
  f := public.giftcard_report_failures(p_tenant_id, v_from, v_to);
  v_differences := public.giftcard_report_differences(p_tenant_id, v_to);
  select jsonb_agg(jsonb_build_object('day', d.day, 'cards', n.cards) order by d.day) into v_days
    from (select v_day - i as day from generate_series(0, 13) i) d
    cross join lateral (
      select count(*) as cards from public.giftcard_cards c
       where c.tenant_id = p_tenant_id and c.created_at >= d.day::timestamp at time zone 'UTC'
         and c.created_at < (d.day + 1)::timestamp at time zone 'UTC') n;
  v_report := jsonb_build_object(
    'tenant_id', p_tenant_id, 'day', v_day, 'made_at', v_now, 'complete', v_now >= v_to,
    'totals', f.totals || (
        select jsonb_build_object('orders', coalesce(sum((c ->> 'orders')::bigint), 0),
                                  'payments', coalesce(sum((c ->> 'payments')::bigint), 0),
                                  'cards', coalesce(sum((c ->> 'cards')::bigint), 0))
                                      from jsonb_array_elements(v_money) c) || (
        select jsonb_build_object('differences', coalesce(sum((d ->> 'items')::bigint), 0))
          from jsonb_array_elements(v_differences) d),
    'currencies', v_money, 'failures', f.rows, 'differences', v_differences, 'last_days', v_days);
  insert into public.giftcard_reports (tenant_id, day, made_at, report) values (p_tenant_id, v_day, v_now, v_report)
  on conflict on constraint giftcard_reports_pkey do update set made_at = excluded.made_at, report = excluded.report;
  if p_by is not null then
    perform public.giftcard_record_act(p_by, p_tenant_id, 'make_report', 'report ' || v_day, '{}', v_now);
  end if;
  return v_report;
end $$;

-- Return tenants with an order, a payment, a card or a failure on a day, the first p_limit by name, only those after
-- p_after: an array.
create function public.giftcard_report_tenants(
  p_day date, p_limit integer default 1000, p_after text default null) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with recursive span as (
    select p_day::timestamp at time zone 'UTC' as since, (p_day + 1)::timestamp at time zone 'UTC' as until), known as (
    -- From one name to the next, whatever the number of orders, until there are enough.
    select coalesce(p_after, '') collate "C" as tenant_id
    union all
    select least((select min(tenant_id) from public.giftcard_orders where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_payments where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_cards where tenant_id > k.tenant_id))
      from known k where k.tenant_id is not null)
  select coalesce(jsonb_agg(t.tenant_id order by t.tenant_id), '[]') from (
    (select k.tenant_id from known k cross join span s
      where k.tenant_id > coalesce(p_after, '')
        and (exists (select from public.giftcard_orders o
                      where o.tenant_id = k.tenant_id and o.created_at >= s.since and o.created_at < s.until)
             or exists (select from public.giftcard_payments p
                         where p.tenant_id = k.tenant_id and p.created_at >= s.since and p.created_at < s.until)
             or exists (select from public.giftcard_cards c
                         where c.tenant_id = k.tenant_id and c.created_at >= s.since and c.created_at < s.until))
      limit least(p_limit, 1000))
    union
    select j.tenant_id from span s
      join public.giftcard_job_history h on h.result in ('FAILED', 'INTERRUPTED') and h.finished_at >= s.since
          and h.finished_at < s.until
      join public.giftcard_jobs j on j.id = h.job_id and j.tenant_id > coalesce(p_after, '')
    union
    select j.tenant_id from span s
      join public.giftcard_jobs j on j.status = 'error' and j.run_no = 0 and j.finished_at >= s.since
          and j.finished_at < s.until and j.tenant_id > coalesce(p_after, '')
     order by 1 limit least(p_limit, 1000)) t
$$;
