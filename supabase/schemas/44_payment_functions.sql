-- What providers report of payments, and the payment that an order accepts. Each function is safe to repeat.

-- Return a payment's row, locked, made if it is new. Its amount and the order that it names are the first known.
-- GC409 for another currency than the one that it has.
create function public.giftcard_lock_payment(
  p_tenant_id text, p_provider text, p_provider_ref text, p_named_order text, p_amount bigint, p_currency text,
  p_now timestamptz) returns public.giftcard_payments
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  p public.giftcard_payments;
begin
  insert into public.giftcard_payments as x (tenant_id, provider, provider_ref, named_order, amount, currency,
                                             created_at)
  values (p_tenant_id, p_provider, p_provider_ref, p_named_order, p_amount, p_currency, p_now)
  on conflict on constraint giftcard_payments_reference_key do update set
    named_order = coalesce(x.named_order, excluded.named_order), amount = coalesce(x.amount, excluded.amount),
    currency = coalesce(x.currency, excluded.currency)
  returning * into p;
  if p.currency <> p_currency then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is in %s, not in %s', p_provider_ref, p.currency, p_currency), 'currency');
  end if;
  return p;
end $$;

-- Record a movement of a payment's money, once per event id, in any order. p_kind: captured, refunded, voided or
-- disputed; p_amount: in minor units. p_named_order: the order that the payment names, if the provider knows. p_as_of:
-- the provider's time of this description: a newer one replaces it, an older one changes nothing. Without it an event
-- is final: GC409 if it is recorded with other content. p_is_total: the amount is the total of its kind so far.
-- Return {payment_id, correlation_id (of the order that the payment pays, or null), worth, currency, changed}.
create function public.giftcard_record_payment_event(
  p_tenant_id text, p_provider text, p_provider_ref text, p_event_id text, p_kind text, p_amount bigint,
  p_currency text, p_named_order text default null, p_is_total boolean default false, p_as_of timestamptz default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_changed boolean;
  p public.giftcard_payments;
  e public.giftcard_payment_events;
begin
  p := public.giftcard_lock_payment(p_tenant_id, p_provider, p_provider_ref, p_named_order,
                                    case when p_kind = 'captured' then nullif(p_amount, 0) end, p_currency, v_now);
  insert into public.giftcard_payment_events as x (tenant_id, provider, event_id, payment_id, kind, amount, is_total,
                                                   as_of, recorded_at)
  values (p_tenant_id, p_provider, p_event_id, p.id, p_kind, p_amount, p_is_total, p_as_of, v_now)
  on conflict on constraint giftcard_payment_events_pkey do update set
    amount = excluded.amount, as_of = excluded.as_of,
    recorded_at = case when x.amount = excluded.amount then x.recorded_at else excluded.recorded_at end
   where (excluded.as_of, excluded.amount) > (x.as_of, x.amount)
     and (x.payment_id, x.kind, x.is_total) = (excluded.payment_id, excluded.kind, excluded.is_total)
  returning * into e;
  v_changed := found;
  if not v_changed then
    select * into strict e from public.giftcard_payment_events
     where tenant_id = p_tenant_id and provider = p_provider and event_id = p_event_id;
    if (e.payment_id, e.kind, e.is_total) <> (p.id, p_kind, p_is_total)
       or (p_as_of is null or e.as_of is null) and e.amount <> p_amount then
      perform public.giftcard_refuse(
        'GC409', format('event %s is recorded with other content: another movement needs another event id', p_event_id),
        'event_id');
    end if;
  end if;
  if v_changed and p.correlation_id is null and p.named_order is not null then
    perform public.giftcard_make_due(p_tenant_id, p.named_order, 'payment', p_now);
  end if;
  return (select jsonb_build_object('payment_id', x.id, 'correlation_id', x.correlation_id, 'worth', x.worth,
                                    'currency', x.currency, 'changed', v_changed)
            from public.giftcard_payments x where x.id = p.id);
end $$;

-- Refuse a payment (GC409) that an order cannot accept.
create function public.giftcard_check_acceptable(o public.giftcard_orders, p public.giftcard_payments) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_other text := (select x.provider_ref from public.giftcard_payments x
                    where x.tenant_id = o.tenant_id and x.correlation_id = o.correlation_id and x.id <> p.id);
  v_problem text := case
    when v_other is not null then format('order %s is paid already, by %s', o.correlation_id, v_other)
    when p.correlation_id <> o.correlation_id
      then format('payment %s pays order %s', p.provider_ref, p.correlation_id)
    when p.named_order <> o.correlation_id then format('payment %s names order %s', p.provider_ref, p.named_order)
    when (p.amount, p.currency) is distinct from (o.amount, o.currency)
      then format('order %s costs %s, the payment is over %s', o.correlation_id,
                  public.giftcard_format_money(o.amount, o.currency),
                  public.giftcard_format_money(p.amount, p.currency))
    when o.free_of_charge then format('order %s is free of charge', o.correlation_id)
    when o.cancelled_at is not null then format('order %s is cancelled', o.correlation_id) end;
begin
  if v_problem is not null and p.correlation_id is distinct from o.correlation_id then
    perform public.giftcard_refuse('GC409', v_problem, 'correlation_id');
  end if;
end $$;

-- Accept a payment as the payment of an order, and record it as captured if it is not yet: one per order, over the
-- order's amount and currency, nothing of it gone back. The effect under this key is done with it. Recorded again, the
-- payment is returned: {id, reference, amount, currency, provider, worth}. GC404 for an unknown order. GC409 for what
-- differs from what is recorded, or cannot be accepted; nothing is recorded then.
create function public.giftcard_record_payment(
  p_tenant_id text, p_correlation_id text, p_idempotency_key text, p_provider text, p_amount bigint, p_currency text,
  p_provider_ref text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_reference text := coalesce(p_provider_ref, 'ledger:' || p_idempotency_key);
  o public.giftcard_orders;
  p public.giftcard_payments;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('there is no order %s: nothing can be paid', p_correlation_id), 'correlation_id');
  end if;
  p := public.giftcard_lock_payment(p_tenant_id, p_provider, v_reference, p_correlation_id, p_amount, p_currency,
                                    v_now);
  if p.amount <> p_amount then
    perform public.giftcard_refuse('GC409', format(
      'payment %s is recorded over %s, not over %s', v_reference, public.giftcard_format_money(p.amount, p.currency),
      public.giftcard_format_money(p_amount, p_currency)), 'amount');
  end if;
  perform public.giftcard_check_acceptable(o, p);
  if p.idempotency_key <> p_idempotency_key then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is recorded under another idempotency key', v_reference), 'idempotency_key');
  end if;
  if p.correlation_id is null then
    insert into public.giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
    values (p_tenant_id, p_provider, 'captured:' || v_reference, p.id, 'captured', p_amount, v_now)
    on conflict on constraint giftcard_payment_events_pkey do nothing;
    update public.giftcard_payments set correlation_id = p_correlation_id, idempotency_key = p_idempotency_key
     where id = p.id and worth >= amount returning * into p;
    if not found then
      perform public.giftcard_refuse(
        'GC409', format('payment %s was refunded or disputed', v_reference), 'provider_ref');
    end if;
    update public.giftcard_effects
       set finished_at = v_now, result = jsonb_build_object('reference', v_reference, 'key', p_idempotency_key)
     where vendor_key = p_idempotency_key and result is null;
  end if;
  return jsonb_build_object('id', p.id, 'reference', p.provider_ref, 'amount', p.amount, 'currency', p.currency,
                            'provider', p.provider, 'worth', p.worth);
exception when unique_violation then
  perform public.giftcard_refuse(
    'GC409', 'this idempotency key belongs to the payment of another order', 'idempotency_key');
  return null;
end $$;

-- Return the payment made under an idempotency key; null: none.
create function public.giftcard_find_payment(p_idempotency_key text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider, 'worth', worth)
    from public.giftcard_payments where idempotency_key = p_idempotency_key
$$;

-- Return the payment that an order can accept, of those at a provider that name it: {reference, instead}. reference:
-- over what the order costs, nothing of it gone back, accepted by no order; of several the first, null for none.
-- instead: what the newest of the others is worth, {amount, currency}, or null.
create function public.giftcard_find_offered_payment(p_tenant_id text, p_correlation_id text, p_provider text)
returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with offered as (
    select p.id, p.provider_ref, p.worth, p.currency, p.created_at,
           (p.amount, p.currency) = (o.amount, o.currency) and p.worth >= p.amount as fits
      from public.giftcard_payments p
      join public.giftcard_orders o on o.tenant_id = p.tenant_id and o.correlation_id = p.named_order
     where p.tenant_id = p_tenant_id and p.named_order = p_correlation_id and p.provider = p_provider
       and p.correlation_id is null and p.worth > 0)
  select jsonb_build_object(
    'reference', (select f.provider_ref from offered f where f.fits order by f.created_at, f.id limit 1),
    'instead', (select jsonb_build_object('amount', f.worth, 'currency', f.currency)
                  from offered f where f.fits is not true order by f.created_at desc, f.id desc limit 1))
$$;

-- Record a movement of an order's money for those who know the order, not the payment's row: a payment service of your
-- own, or an operator after a refund by hand. p_provider_ref null: of the payment that the order accepted. Another
-- reference: of that payment, which is at p_provider if it is new. p_currency null: the order's. Return what
-- giftcard_record_payment_event does, and reference and provider. What it changes has a row in the audit. GC404 for an
-- unknown order, or one that accepted no payment. GC409 also for the payment of another order.
create function public.giftcard_record_order_event(
  p_tenant_id text, p_correlation_id text, p_event_id text, p_kind text, p_amount bigint,
  p_currency text default null, p_provider_ref text default null, p_provider text default null,
  p_is_total boolean default false, p_as_of timestamptz default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_order_currency text := (select currency from public.giftcard_orders
                             where tenant_id = p_tenant_id and correlation_id = p_correlation_id);
  v_recorded jsonb;
  p public.giftcard_payments;
begin
  select * into p from (
    select * from public.giftcard_payments
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id
    union all
    select * from public.giftcard_payments
     where tenant_id = p_tenant_id and named_order = p_correlation_id and correlation_id is null) x
   where x.provider_ref = p_provider_ref or p_provider_ref is null and x.correlation_id is not null
   order by x.correlation_id, x.id limit 1;
  if v_order_currency is null then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  elsif p.id is null and (p_provider_ref is null or p_provider is null) then
    perform public.giftcard_refuse('GC404', format(
      'order %s has no payment yet: name the payment by its reference', p_correlation_id), 'reference');
  elsif p.id is null and exists (
      select from public.giftcard_payments x
       where x.tenant_id = p_tenant_id and x.provider = p_provider and x.provider_ref = p_provider_ref
         and coalesce(x.correlation_id, x.named_order) <> p_correlation_id) then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is of another order', p_provider_ref), 'reference');
  end if;
  p.provider := coalesce(p.provider, p_provider);
  p.provider_ref := coalesce(p.provider_ref, p_provider_ref);
  v_recorded := public.giftcard_record_payment_event(
    p_tenant_id, p.provider, p.provider_ref, p_event_id, p_kind, p_amount,
    coalesce(p_currency, p.currency, v_order_currency), p_correlation_id, p_is_total, p_as_of, p_now);
  if (v_recorded ->> 'changed')::boolean then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'payment_event', 'order ' || p_correlation_id,
      jsonb_build_object('reference', p.provider_ref, 'event_id', p_event_id, 'kind', p_kind, 'amount', p_amount,
                         'currency', v_recorded -> 'currency'), p_now);
  end if;
  return v_recorded || jsonb_build_object('reference', p.provider_ref, 'provider', p.provider);
end $$;
