-- Differences: where money and cards do not match, kind by kind. Each reads a small index of what is open.

create table public.giftcard_accepted_differences (
  kind text collate "C" not null,
  tenant_id text collate "C" not null,
  item text collate "C" not null,
  amount bigint not null,
  by text not null,
  reason text not null,
  accepted_at timestamptz not null,
  constraint giftcard_accepted_differences_pkey primary key (kind, tenant_id, item)
);
comment on table public.giftcard_accepted_differences is
  'One row is a difference that an operator has accepted. It is shown again if its amount changes.';
comment on column public.giftcard_accepted_differences.item is
  'The reference of the payment or card, or the vendor key of the charge.';

create index giftcard_effects_unfinished on public.giftcard_effects (started_at)
    where started_at is not null and name in ('charge', 'issue') and (result is null or result ? 'decided_by');

-- Return whether an operator has accepted a difference over this amount, since it is there. p_item: its reference.
create function public.giftcard_is_accepted(
  p_kind text, p_tenant_id text, p_item text, p_amount bigint, p_since timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (select from public.giftcard_accepted_differences
                  where kind = p_kind and tenant_id = p_tenant_id and item = p_item and amount = p_amount
                    and accepted_at >= p_since);
end $$;

-- Return paid orders without a card of which nothing is queued or runs: the job that should issue the card is dead,
-- cancelled or missing. A dead letter counts although it may revive tomorrow: today the customer has paid for nothing.
create function public.giftcard_differences_without_card(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end, p.tenant_id,
         p.correlation_id, p.provider_ref, p.worth, p.currency, p.created_at, coalesce(
           (select format('job %s of %s is %s%s', j.id, j.stage, j.status, ': ' || left(j.last_error, 200))
              from public.giftcard_jobs j
             where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id
               and j.status in ('error', 'cancelled') and not public.giftcard_is_webhook(j.stage)
             order by j.id desc limit 1), 'no job of its flow is left')
    from public.giftcard_payments p
    join public.giftcard_orders o on o.tenant_id = p.tenant_id and o.correlation_id = p.correlation_id
   where p.correlation_id is not null and p.card_id is null and p.worth > 0
     and (p_tenant_id is null or p.tenant_id = p_tenant_id)
     and public.giftcard_is_at_rest(p.tenant_id, p.correlation_id)
     and not public.giftcard_is_accepted(
       case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end, p.tenant_id,
       p.provider_ref, p.worth, p.created_at)
   order by p.created_at, p.id limit 1000
$$;

-- Return money that no order accepts: of no order, a second payment, a wrong amount, for an order that is cancelled or
-- free; money beyond what an order costs; and refunds of a payment that was never captured. A payment that fits waits
-- for the order's payment job, while that lives.
create function public.giftcard_differences_of_money(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  (select d.kind, p.tenant_id, coalesce(p.correlation_id, p.named_order), p.provider_ref,
         p.worth - case when p.correlation_id is null then 0 else p.amount end, p.currency, p.created_at,
         case d.kind
           when 'money_without_order'
             then case when p.named_order is null then 'it names no order' else 'no order has this correlation id' end
           when 'paid_twice' then 'the order is paid by ' || a.provider_ref
           when 'wrong_amount' then format('the order costs %s, %s were paid, %s of it at first',
                                           public.giftcard_format_money(o.amount, o.currency),
                                           public.giftcard_format_money(p.worth, p.currency),
                                           public.giftcard_format_money(p.amount, p.currency))
           when 'paid_but_cancelled' then 'the order is cancelled'
           when 'paid_but_free' then 'the order is free of charge'
           else 'the order''s payment job does not run' end
    from public.giftcard_payments p
    left join public.giftcard_orders o
      on o.tenant_id = p.tenant_id and o.correlation_id = coalesce(p.correlation_id, p.named_order)
    left join public.giftcard_payments a
      on a.tenant_id = p.tenant_id and a.correlation_id = p.named_order and a.id <> p.id
   cross join lateral (select case
           when o.tenant_id is null then 'money_without_order'
           when a.id is not null then 'paid_twice'
           -- Captured in parts, it is not accepted either.
           when (p.worth, p.currency) is distinct from (o.amount, o.currency)
             or p.correlation_id is null and p.amount is distinct from o.amount then 'wrong_amount'
           when o.cancelled_at is not null then 'paid_but_cancelled'
           when o.free_of_charge then 'paid_but_free'
           when public.giftcard_is_at_rest(o.tenant_id, o.correlation_id) then 'paid_without_card' end) d(kind)
   where p.worth > case when p.correlation_id is null then 0 else p.amount end and d.kind is not null
     and (p_tenant_id is null or p.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted(d.kind, p.tenant_id, p.provider_ref, p.worth - case
           when p.correlation_id is null then 0 else p.amount end, p.created_at)
   order by p.created_at, p.id limit 1000)
  union all
  (select 'refund_without_payment', p.tenant_id, p.named_order, p.provider_ref, -p.worth, p.currency, p.created_at,
          'money of this payment went back, and it was never captured'
     from public.giftcard_payments p
    where p.worth < 0 and p.amount is null and p.named_order is not null
      and (p_tenant_id is null or p.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted('refund_without_payment', p.tenant_id, p.provider_ref, -p.worth, p.created_at)
    order by p.created_at, p.id limit 1000)
$$;

-- Return what there is of a card, and how much of it is spent.
create function public.giftcard_spent(c public.giftcard_cards) returns text
language sql stable security invoker set search_path = '' as $$
  select format('the card is %s; %s of %s are spent', c.state,
                public.giftcard_format_money(greatest(c.amount - c.balance, 0), c.currency),
                public.giftcard_format_money(c.amount, c.currency))
$$;

-- Return cards that are not paid for any more and not blocked, or were spent before they were; those of cancelled
-- orders; and the money of blocked cards whose customers have paid for more than they can spend, or have spent.
create function public.giftcard_differences_of_cards(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  (select d.kind, c.tenant_id, c.correlation_id, c.provider_ref, c.unpaid, c.currency, coalesce(e.since, c.created_at),
          public.giftcard_spent(c)
     from public.giftcard_cards c
    cross join lateral (
      select max(e.recorded_at) as since, coalesce(bool_or(e.kind = 'disputed' and e.amount > 0), false) as disputed
        from public.giftcard_payment_events e where e.payment_id = c.payment_id and e.kind <> 'captured') e
    cross join lateral (
      select case when e.disputed then 'disputed_after_issue' else 'refunded_after_issue' end) d(kind)
    where c.unpaid > 0 and (c.state <> 'blocked' or c.balance < c.amount)
      and (p_tenant_id is null or c.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted(d.kind, c.tenant_id, c.provider_ref, c.unpaid,
                                          coalesce(e.since, c.created_at))
    order by c.created_at, c.id limit 1000)
  union all
  (select 'card_of_cancelled_order', c.tenant_id, c.correlation_id, c.provider_ref, c.amount, c.currency,
          o.cancelled_at, public.giftcard_spent(c)
     from public.giftcard_cards c
     join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
    where c.order_cancelled and (c.state <> 'blocked' or c.balance < c.amount)
      and (p_tenant_id is null or o.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted('card_of_cancelled_order', c.tenant_id, c.provider_ref, c.amount,
                                          o.cancelled_at)
    order by o.cancelled_at limit 1000)
  union all
  (select d.kind, c.tenant_id, c.correlation_id, p.provider_ref, d.amount, c.currency, c.created_at,
          format('its card is blocked; %s of %s are left on it, %s are not paid',
                 public.giftcard_format_money(c.balance, c.currency),
                 public.giftcard_format_money(c.amount, c.currency),
                 public.giftcard_format_money(c.unpaid, c.currency))
     from public.giftcard_cards c
     join public.giftcard_payments p on p.id = c.payment_id
     join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
    cross join lateral (
      select case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end,
             least(c.balance, c.amount) - c.unpaid) d(kind, amount)
    where c.state = 'blocked' and c.payment_id is not null
      and (c.unpaid = 0 and c.balance > 0 or c.unpaid < c.amount and c.balance >= c.amount)
      -- An operator's block of a card that is paid is a decision about its money, until money moves again.
      and (o.cancelled_at is not null or c.unpaid > 0 or not exists (
        select from public.giftcard_audit a
         where a.action = 'block_card' and a.subject = 'order ' || c.correlation_id and a.tenant_id = c.tenant_id
           and a.at >= (select max(e.recorded_at) from public.giftcard_payment_events e
                         where e.payment_id = c.payment_id)))
      and (p_tenant_id is null or c.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted(d.kind, c.tenant_id, p.provider_ref, d.amount, c.created_at)
    order by c.created_at, c.id limit 1000)
$$;

-- Return charges and issues that began, have no result, and are not being worked on: whether they happened is unknown.
create function public.giftcard_differences_of_effects(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select case e.name when 'charge' then 'charge_unknown' else 'issue_unknown' end, e.tenant_id, e.correlation_id,
         e.vendor_key, o.amount, o.currency, e.started_at,
         case when e.result is null then 'it was begun and has no result'
              else 'it happened by a decision, and is not recorded: requeue its job' end
    from public.giftcard_effects e
    join public.giftcard_orders o on o.tenant_id = e.tenant_id and o.correlation_id = e.correlation_id
   where e.started_at is not null and e.name in ('charge', 'issue') and (e.result is null or e.result ? 'decided_by')
     and not exists (select from public.giftcard_payments p
                      where e.result is not null and p.tenant_id = e.tenant_id and p.correlation_id = e.correlation_id
                        and (e.name = 'charge' or p.card_id is not null))
     and (p_tenant_id is null or e.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted(case e.name when 'charge' then 'charge_unknown' else 'issue_unknown' end,
                                         e.tenant_id, e.vendor_key, o.amount, e.started_at)
     and public.giftcard_is_at_rest(e.tenant_id, e.correlation_id)
     -- Recorded and not accepted: its money has a line of another kind. A refund alone is not its money.
     and not exists (select from public.giftcard_payments p
                      where p.tenant_id = e.tenant_id and p.named_order = e.correlation_id and p.correlation_id is null
                        and p.amount is not null and e.name = 'charge')
   order by e.started_at, e.vendor_key limit 1000
$$;

-- Return events of vendors about money that the books refused: they changed nothing.
create function public.giftcard_differences_of_events(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
  select 'event_refused', e.tenant_id, e.correlation_id, e.event_id, m.amount, left(e.facts ->> 'currency', 20),
         e.received_at, left(e.facts ->> 'why', 500)
    from public.giftcard_inbound_events e
   -- An amount that no column holds counts as 0.
   cross join lateral (select case when e.facts ->> 'movement' ~ '^[0-9]{1,18}$'
                                   then (e.facts ->> 'movement')::bigint else 0 end) m(amount)
   where e.kind = 'ignored' and e.facts ? 'movement' and (p_tenant_id is null or e.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted('event_refused', e.tenant_id, e.event_id, m.amount, e.received_at)
   order by e.received_at, e.event_id limit 1000;
end $$;
