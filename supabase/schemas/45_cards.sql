-- Cards: one per order, over the order's amount, and only if it is paid or free of charge.

create table public.giftcard_cards (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  customer_id bigint,
  payment_id bigint,
  free_of_charge boolean not null default false,
  provider text collate "C" not null,
  provider_ref text collate "C" not null,
  number_encrypted text collate "C" not null,
  number_hash text collate "C" not null,
  last4 text collate "C" not null,
  amount bigint not null,
  balance bigint not null,
  currency text not null,
  unpaid bigint not null default 0,
  order_cancelled boolean not null default false,
  state text not null default 'active',
  created_at timestamptz not null,
  state_as_of timestamptz,
  balance_as_of timestamptz,
  constraint giftcard_cards_pkey primary key (id),
  constraint giftcard_cards_order_key unique (tenant_id, correlation_id),
  constraint giftcard_cards_number_key unique (number_hash),
  constraint giftcard_cards_reference_key unique (tenant_id, provider_ref, provider),
  constraint giftcard_cards_payment_key unique (payment_id),
  constraint giftcard_cards_customer_fkey foreign key (customer_id) references public.giftcard_customers (id),
  constraint giftcard_cards_terms_fkey foreign key (tenant_id, correlation_id, amount, currency, free_of_charge)
    references public.giftcard_orders (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_cards_payment_fkey foreign key (payment_id, tenant_id, correlation_id)
    references public.giftcard_payments (id, tenant_id, correlation_id),
  constraint giftcard_cards_have_a_payment_or_are_free check ((payment_id is null) = free_of_charge),
  constraint giftcard_cards_state_is_known check (state in ('active', 'blocked', 'redeemed')),
  constraint giftcard_cards_balance_is_not_negative check (
    amount between 1 and 1000000000000000 and balance between 0 and 1000000000000000),
  constraint giftcard_cards_unpaid_is_bounded check (unpaid between 0 and 9000000000000000),
  constraint giftcard_cards_last4_is_four_digits check (last4 ~ '^[0-9]{4}$')
);

create index giftcard_cards_by_customer on public.giftcard_cards (customer_id);
create index giftcard_cards_not_paid on public.giftcard_cards (created_at, id)
    where unpaid > 0 and (state <> 'blocked' or balance < amount);
create index giftcard_cards_blocked_but_paid on public.giftcard_cards (created_at, id)
    where state = 'blocked' and payment_id is not null
      and (unpaid = 0 and balance > 0 or unpaid < amount and balance >= amount);

create index giftcard_cards_of_cancelled_orders on public.giftcard_cards (created_at, id)
    where order_cancelled and (state <> 'blocked' or balance < amount);

comment on table public.giftcard_cards is
  'One card per order. The number is encrypted for its flow; number_hash (keyed) finds it, last4 shows it.';
comment on column public.giftcard_cards.unpaid is
  'How much of the amount is not paid for: its payment was refunded or disputed. Such a card has to be blocked.';
comment on column public.giftcard_cards.state_as_of is
  'The time of the newest known state: an older event of the vendor does not change it.';
comment on column public.giftcard_cards.balance_as_of is
  'The vendor''s time of the newest known balance: an older event does not change it.';

-- Enqueue the job that blocks the card of an order, unless one waits. One that runs may have found the card paid; one
-- that waits is held until the caller's transaction ends, so that it finds what the caller has changed. One that
-- another transaction holds is left to it: the caller holds books, for which that one may wait.
create function public.giftcard_enqueue_block(p_tenant_id text, p_correlation_id text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'block_card' and status = 'queued'
   order by id limit 1 for no key update skip locked;
  if not found then
    -- Not p_now, which may be that of an earlier job.
    perform public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'block_card', 'trigger_type', 'books',
      'source', 'app', 'dedup_key', to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD"T"HH24MISS.US'))),
      p_now => p_now);
  end if;
end $$;

-- Complete and check a new card: its payment must be worth the amount, unless the card is blocked.
create function public.giftcard_check_card() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  new.order_cancelled := coalesce((
    select o.cancelled_at is not null from public.giftcard_orders o
     where o.tenant_id = new.tenant_id and o.correlation_id = new.correlation_id for no key update), false);
  if new.payment_id is not null then
    new.unpaid := (select greatest(new.amount - p.worth, 0)
                     from public.giftcard_payments p where p.id = new.payment_id for no key update);
    if new.unpaid > 0 and new.state <> 'blocked' then
      raise exception 'the payment of order % is not worth the card: it was refunded or disputed', new.correlation_id
        using errcode = '23514', constraint = 'giftcard_cards_is_paid', table = 'giftcard_cards', schema = 'public';
    end if;
  end if;
  return new;
end $$;
create trigger giftcard_cards_is_paid before insert on public.giftcard_cards
    for each row execute function public.giftcard_check_card();

-- Mark the card of an order that is cancelled or reopened.
create function public.giftcard_mark_card() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_cards set order_cancelled = new.cancelled_at is not null
   where tenant_id = new.tenant_id and correlation_id = new.correlation_id;
  return null;
end $$;
create trigger giftcard_orders_mark_their_card after update of cancelled_at on public.giftcard_orders
    for each row when ((old.cancelled_at is null) <> (new.cancelled_at is null))
    execute function public.giftcard_mark_card();

-- Keep the card of a payment with the payment, also by plain SQL. A card that is recorded as blocked because it is not
-- paid any more is to be blocked at its provider, too.
create function public.giftcard_link_card() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    update public.giftcard_payments set card_id = null where id = old.payment_id and card_id = old.id;
    return null;
  end if;
  update public.giftcard_payments set card_id = new.id where id = new.payment_id;
  if new.unpaid > 0 then
    perform public.giftcard_enqueue_block(new.tenant_id, new.correlation_id, new.created_at);
  end if;
  return null;
end $$;
create trigger giftcard_cards_link_their_payment after insert or delete on public.giftcard_cards
    for each row execute function public.giftcard_link_card();

-- Record a card, one per order, with the order's customer. If its payment went back while the card was issued, it is
-- recorded as blocked, and a job blocks it at its provider. The effect issue is done with it. Recorded again, it is
-- returned: {id, reference, number_encrypted, number_hash, last4}. GC404 for an unknown order. GC409 for an order that
-- is not paid, or what differs from what is recorded. A number or reference that another card has is a unique violation
-- of giftcard_cards_number_key or giftcard_cards_reference_key.
create function public.giftcard_record_card(
  p_tenant_id text, p_correlation_id text, p_provider text, p_provider_ref text, p_number_encrypted text,
  p_number_hash text, p_last4 text, p_amount bigint, p_currency text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  p public.giftcard_payments;
  c public.giftcard_cards;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('there is no order %s: no card can be issued', p_correlation_id), 'correlation_id');
  end if;
  select * into p from public.giftcard_payments
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  select * into c from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  if c.id is not null then
    if (c.provider, c.provider_ref, c.number_hash, c.amount, c.currency)
       is distinct from (p_provider, p_provider_ref, p_number_hash, p_amount, p_currency) then
      perform public.giftcard_refuse('GC409', format(
        'order %s has another card already: %s', p_correlation_id, c.provider_ref), 'correlation_id');
    end if;
  elsif (p_amount, p_currency) is distinct from (o.amount, o.currency) then
    perform public.giftcard_refuse('GC409', format(
      'order %s is over %s, the card over %s', p_correlation_id, public.giftcard_format_money(o.amount, o.currency),
      public.giftcard_format_money(p_amount, p_currency)), 'amount');
  elsif p.id is null and not o.free_of_charge then
    perform public.giftcard_refuse(
      'GC409', format('order %s is neither paid nor free of charge', p_correlation_id), 'correlation_id');
  else
    insert into public.giftcard_cards
      (tenant_id, correlation_id, customer_id, payment_id, free_of_charge, provider, provider_ref, number_encrypted,
       number_hash, last4, amount, balance, currency, state, created_at)
    values (p_tenant_id, p_correlation_id, o.customer_id, p.id, o.free_of_charge, p_provider, p_provider_ref,
            p_number_encrypted, p_number_hash, p_last4, p_amount, p_amount, p_currency,
            case when p.worth < p.amount then 'blocked' else 'active' end, v_now)
    returning * into c;
    perform public.giftcard_apply_kept_events(c.tenant_id, c.provider_ref);
    update public.giftcard_effects
       set finished_at = v_now, result = jsonb_build_object(
             'reference', p_provider_ref, 'number_encrypted', p_number_encrypted, 'number_hash', p_number_hash,
             'last4', p_last4)
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'issue_card' and dedup_key = ''
       and name = 'issue' and started_at is not null and result is null;
  end if;
  return jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash, 'last4', c.last4);
end $$;

-- Record that the card of an order is blocked at its provider. p_balance: what was left on it; null: unknown. Return
-- {state, balance, amount, currency}. GC404 for no card.
create function public.giftcard_block_card(
  p_tenant_id text, p_correlation_id text, p_balance bigint default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_cards;
begin
  update public.giftcard_cards
     set state = 'blocked', state_as_of = v_now, balance = coalesce(p_balance, balance),
         balance_as_of = case when p_balance is null then balance_as_of else v_now end
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id returning * into c;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('order %s has no card', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('state', c.state, 'balance', c.balance, 'amount', c.amount, 'currency', c.currency);
end $$;

-- Let what is recorded of a vendor's card wait for each other: its events, and the card itself. Otherwise an event that
-- finds no card and the card that finds no event would miss each other.
create function public.giftcard_lock_reference(p_tenant_id text, p_reference text) returns void
language sql volatile security invoker set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended(format('card %s of %s', p_reference, p_tenant_id), 0))
$$;

-- Update the balance and state of a gift card, found by the vendor's reference. p_card: {reference, balance, currency,
-- blocked (null: unchanged), at}. Events may arrive in any order: state and balance each keep the newest. Return what
-- the event became, {kind, facts}: card; ignored, {why}; or kept, p_card, until the card is recorded.
create function public.giftcard_update_card(p_tenant_id text, p_card jsonb) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_at timestamptz := (p_card ->> 'at')::timestamptz;
  v_balance bigint := (p_card ->> 'balance')::bigint;
  v_blocked boolean := (p_card ->> 'blocked')::boolean;
  v_newer_state boolean;
  v_newer_balance boolean;
  v_why text;
  c public.giftcard_cards;
begin
  perform public.giftcard_lock_reference(p_tenant_id, p_card ->> 'reference');
  select * into c from public.giftcard_cards
   where tenant_id = p_tenant_id and provider_ref = p_card ->> 'reference' order by id limit 1 for update;
  if not found then
    return jsonb_build_object('kind', 'kept', 'facts', p_card);
  end if;
  -- Of two events of one instant the blocked state and the lower balance count, whichever comes first.
  v_newer_state := v_blocked is not null and coalesce(
    (c.state_as_of, c.state = 'blocked') < (v_at, v_blocked), true);
  v_newer_balance := v_balance is not null and coalesce((c.balance_as_of, -c.balance) < (v_at, -v_balance), true);
  v_why := case when c.currency <> p_card ->> 'currency' then 'another currency'
                when not v_newer_state and not v_newer_balance then 'not the newest' end;
  if v_why is not null then
    return jsonb_build_object('kind', 'ignored', 'facts', jsonb_build_object('why', v_why));
  end if;
  c.balance := case when v_newer_balance then v_balance else c.balance end;
  update public.giftcard_cards
     set balance = c.balance, balance_as_of = case when v_newer_balance then v_at else balance_as_of end,
         state_as_of = case when v_newer_state then v_at else state_as_of end,
         state = case when case when v_newer_state then v_blocked else state = 'blocked' end then 'blocked'
                      when c.balance = 0 then 'redeemed' else 'active' end
   where id = c.id;
  return jsonb_build_object('kind', 'card', 'facts', jsonb_build_object());
end $$;
