-- The customer's page of an order: one call returns all that it shows.

-- Return what state the page of an order shows: the first of these that holds.
--   erased      the customer was erased
--   cancelled   the order is cancelled
--   blocked     the card is blocked, or is to be: its payment went back
--   spent       nothing is left on the card
--   ready       there is a card
--   refunded    the payment went back before there was a card
--   late        a job of the flow is a dead letter, none is open, or there is no card 15 minutes after the payment
--   paid        the card is being made
--   received    the payment is waited for
create function public.giftcard_page_state(
  o public.giftcard_orders, c public.giftcard_cards, p public.giftcard_payments, p_now timestamptz) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return case
    when o.details = '{}' then 'erased'
    when o.cancelled_at is not null then 'cancelled'
    when c.state = 'blocked' or c.unpaid > 0 then 'blocked'
    when c.state = 'redeemed' then 'spent'
    when c.id is not null then 'ready'
    when p.worth < o.amount then 'refunded'
    when p.created_at < p_now - interval '15 minutes'
      or exists (select from public.giftcard_jobs j
                  where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id and j.status = 'error'
                    and not public.giftcard_is_webhook(j.stage))
      or not exists (select from public.giftcard_jobs j
                      where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                        and j.status in ('queued', 'running') and not public.giftcard_is_webhook(j.stage)) then 'late'
    when p.id is not null or o.free_of_charge then 'paid'
    else 'received' end;
end $$;

-- Return what the page of an order shows: {tenant_id, correlation_id, state, locale,
-- order: {amount, currency, details}, card: {number_encrypted, number_hash, balance, personal_code}}. order and card
-- are null unless the state is ready. null: no order has this id.
create function public.giftcard_card_page(p_page_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  o public.giftcard_orders;
  c public.giftcard_cards;
  p public.giftcard_payments;
  v_state text;
begin
  select * into o from public.giftcard_orders where page_id = p_page_id;
  if not found then
    return null;
  end if;
  select * into c from public.giftcard_cards
   where tenant_id = o.tenant_id and correlation_id = o.correlation_id;
  select * into p from public.giftcard_payments
   where tenant_id = o.tenant_id and correlation_id = o.correlation_id;
  v_state := public.giftcard_page_state(o, c, p, coalesce(p_now, clock_timestamp()));
  return jsonb_build_object(
    'tenant_id', o.tenant_id, 'correlation_id', o.correlation_id, 'state', v_state, 'locale', left(o.locale, 100),
    'order', case when v_state = 'ready' then jsonb_build_object(
      'amount', o.amount, 'currency', o.currency, 'details', public.giftcard_readable(o.details, 100000)) end,
    'card', case when v_state = 'ready' then jsonb_build_object(
      'number_encrypted', c.number_encrypted, 'number_hash', c.number_hash, 'balance', c.balance,
      'personal_code', (select u.personal_code from public.giftcard_customers u where u.id = c.customer_id)) end);
end $$;
