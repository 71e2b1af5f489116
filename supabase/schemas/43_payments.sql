-- Payments: what each one is worth now, and the one that an order accepts.

create table public.giftcard_payments (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  provider text collate "C" not null,
  provider_ref text collate "C" not null,
  correlation_id text collate "C",
  named_order text collate "C",
  idempotency_key text collate "C",
  amount bigint,
  currency text,
  free_of_charge boolean not null default false,
  worth bigint not null default 0,
  card_id bigint,
  created_at timestamptz not null,
  constraint giftcard_payments_pkey primary key (id),
  constraint giftcard_payments_reference_key unique (tenant_id, provider, provider_ref),
  constraint giftcard_payments_order_key unique (tenant_id, correlation_id),
  constraint giftcard_payments_idempotency_key_key unique (idempotency_key),
  constraint giftcard_payments_id_key unique (id, tenant_id, correlation_id),
  constraint giftcard_payments_terms_fkey foreign key (tenant_id, correlation_id, amount, currency, free_of_charge)
    references public.giftcard_orders (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_payments_order_is_not_free check (not free_of_charge),
  constraint giftcard_payments_accepted_is_known check (correlation_id is null or (amount, currency) is not null),
  constraint giftcard_payments_amount_is_positive check (amount between 1 and 1000000000000000),
  constraint giftcard_payments_worth_is_bounded check (abs(worth::numeric) <= 9000000000000000)
);
create index giftcard_payments_without_card on public.giftcard_payments (created_at, id)
    where correlation_id is not null and card_id is null and worth > 0;
create index giftcard_payments_not_accepted on public.giftcard_payments (tenant_id, named_order)
    where correlation_id is null;
create index giftcard_payments_surplus on public.giftcard_payments (created_at, id)
    where worth > case when correlation_id is null then 0 else amount end;

create index giftcard_payments_refunded_only on public.giftcard_payments (created_at, id)
    where worth < 0 and amount is null and named_order is not null;

comment on table public.giftcard_payments is
  'One row is a payment at a provider. With the provider ledger this row is the payment itself.';
comment on column public.giftcard_payments.correlation_id is
  'The order that it pays: one payment per order, with the order''s amount and currency. null: it pays none (yet).';
comment on column public.giftcard_payments.named_order is
  'The order that it names. It is not accepted if it is the second one, has another amount, or there is no such order.';
comment on column public.giftcard_payments.amount is 'As captured. null: a refund or dispute of it arrived first.';
comment on column public.giftcard_payments.worth is
  'What it is worth now: the sum of its events, in minor units. Negative: a refund arrived before the payment.';

create table public.giftcard_payment_events (
  tenant_id text collate "C" not null,
  provider text collate "C" not null,
  event_id text collate "C" not null,
  payment_id bigint not null,
  kind text not null,
  amount bigint not null,
  is_total boolean not null default false,
  as_of timestamptz,
  recorded_at timestamptz not null,
  constraint giftcard_payment_events_pkey primary key (tenant_id, provider, event_id),
  constraint giftcard_payment_events_payment_fkey foreign key (payment_id) references public.giftcard_payments (id),
  constraint giftcard_payment_events_kind_is_known check (kind in ('captured', 'refunded', 'voided', 'disputed')),
  constraint giftcard_payment_events_amount_is_not_negative check (amount between 0 and 1000000000000000)
);
create index giftcard_payment_events_by_payment on public.giftcard_payment_events (payment_id);

comment on table public.giftcard_payment_events is
  'One row is one movement of a payment''s money: captured, refunded, voided or disputed, in the payment''s currency.';
comment on column public.giftcard_payment_events.is_total is
  'The amount is the total of this kind so far, not one more: it and the single ones are not added up.';
comment on column public.giftcard_payment_events.as_of is
  'The vendor''s time of this description. A newer one replaces it (a refund that failed is 0); an older one does not.';

-- Return what a payment is worth by its events: what was captured less what went back, in whatever order they arrived.
-- It stays within its bounds.
create function public.giftcard_worth(p_payment_id bigint) returns bigint
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select least(greatest(coalesce(sum(case when k.kind = 'captured' then k.amount else -k.amount end), 0),
                        -9000000000000000), 9000000000000000)::bigint
    from (select e.kind, greatest(sum(e.amount) filter (where not e.is_total), max(e.amount) filter (where e.is_total))
                   as amount
            from public.giftcard_payment_events e where e.payment_id = p_payment_id group by e.kind) k
$$;

-- Set a payment's worth, and have the card of its order blocked if it is not paid any more.
create function public.giftcard_value_payment(p_payment_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  p public.giftcard_payments;
  v_unpaid bigint;
begin
  -- The sum is read after the lock: of two events that are written at once, the second sees the first.
  perform from public.giftcard_payments where id = p_payment_id for no key update;
  update public.giftcard_payments set worth = public.giftcard_worth(id) where id = p_payment_id returning * into p;
  -- A card that was recorded as blocked and never blocked at its provider is active once it is paid again.
  update public.giftcard_cards
     set unpaid = greatest(amount - p.worth, 0),
         state = case when p.worth >= amount and state = 'blocked' and state_as_of is null then 'active' else state end
   where id = p.card_id and unpaid <> greatest(amount - p.worth, 0) returning unpaid into v_unpaid;
  if v_unpaid > 0 then
    perform public.giftcard_enqueue_block(p.tenant_id, p.correlation_id, p_now);
  end if;
end $$;

-- Value the payment of each event that is written, also by plain SQL.
create function public.giftcard_value_payment_of_event() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op <> 'INSERT' then
    perform public.giftcard_value_payment(
      old.payment_id, case when tg_op = 'UPDATE' then new.recorded_at else clock_timestamp() end);
  end if;
  if tg_op = 'INSERT' or tg_op = 'UPDATE' and new.payment_id <> old.payment_id then
    perform public.giftcard_value_payment(new.payment_id, new.recorded_at);
  end if;
  return null;
end $$;
create trigger giftcard_payment_events_value_the_payment after insert or update or delete
    on public.giftcard_payment_events for each row execute function public.giftcard_value_payment_of_event();

-- Return whether nothing queued or running will go on with a flow, webhooks apart.
create function public.giftcard_is_at_rest(p_tenant_id text, p_correlation_id text) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return not exists (
    select from public.giftcard_jobs j
     where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and j.status in ('queued', 'running')
       and not public.giftcard_is_webhook(j.stage));
end $$;
