-- Find orders by what a person knows of them. Each way reads an index, from the newest, and so many rows at most.

create index giftcard_orders_by_flow on public.giftcard_orders (correlation_id, tenant_id);
-- Addresses are cut: one that plain SQL wrote may be longer than an index entry. None once the customer is erased.
create index giftcard_orders_by_email on public.giftcard_orders
    ((left(lower(details #>> '{customer,email}'), 254)) collate "C", created_at)
    where details #>> '{customer,email}' is not null;
create index giftcard_customers_by_email on public.giftcard_customers ((left(lower(email), 254)) collate "C");
create index giftcard_customers_by_personal_code on public.giftcard_customers (personal_code)
    where personal_code is not null;
create index giftcard_payments_by_reference on public.giftcard_payments (provider_ref, id);
create index giftcard_cards_by_last4 on public.giftcard_cards (last4, id);

-- Return the orders of the customers with an address, in lower case, or a personal code, up to 1,000 by what they hold
-- themselves and 1,000 by their customer. An erased customer has neither.
create function public.giftcard_orders_of_customer(p_email text, p_code text, p_tenant_id text)
returns table (tenant_id text, correlation_id text, matched text)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  return query
  (select o.tenant_id, o.correlation_id, 'email' from public.giftcard_orders o
    where left(lower(o.details #>> '{customer,email}'), 254) = p_email collate "C"
      and o.details #>> '{customer,email}' is not null and (p_tenant_id is null or o.tenant_id = p_tenant_id)
    order by o.created_at desc limit 1000)
  union all
  (select c.tenant_id, o.correlation_id, case when c.personal_code = p_code then 'personal_code' else 'email' end
     from (
       select * from public.giftcard_customers x
        where left(lower(x.email), 254) = p_email collate "C" and x.email <> 'erased-' || x.id || '@erased.invalid'
          and (p_tenant_id is null or x.tenant_id = p_tenant_id)
       union all
       select * from public.giftcard_customers x
        where x.personal_code = p_code and x.personal_code is not null
          and (p_tenant_id is null or x.tenant_id = p_tenant_id)) c
    -- For each customer by its index: a join might read all orders.
    cross join lateral (
      select * from public.giftcard_orders y
       where y.customer_id = c.id and y.tenant_id = c.tenant_id order by y.created_at desc limit 1000) o
    order by o.created_at desc limit 1000);
end $$;

-- Return the flows that fit a text, up to 1,000 of each way, each with the way: the correlation id or its beginning, an
-- address, a personal code, the last four digits of a card, or the reference of a payment.
create function public.giftcard_order_matches(p_text text, p_tenant_id text)
returns table (tenant_id text, correlation_id text, matched text)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  return query
  (select o.tenant_id, o.correlation_id, 'correlation_id' from public.giftcard_orders o
    where o.correlation_id = p_text and (p_tenant_id is null or o.tenant_id = p_tenant_id) limit 1000)
  union all
  -- Ids that count go up: the highest are the newest.
  (select o.tenant_id, o.correlation_id, 'correlation_id' from public.giftcard_orders o
    where o.correlation_id > p_text and o.correlation_id < p_text || chr(1114111)
      and (p_tenant_id is null or o.tenant_id = p_tenant_id)
    order by o.correlation_id desc limit 1000)
  union all
  (select c.tenant_id, c.correlation_id, 'last4' from public.giftcard_cards c
    where c.last4 = p_text and (p_tenant_id is null or c.tenant_id = p_tenant_id) order by c.id desc limit 1000)
  union all
  (select p.tenant_id, coalesce(p.correlation_id, p.named_order), 'reference' from public.giftcard_payments p
    where p.provider_ref = p_text and (p_tenant_id is null or p.tenant_id = p_tenant_id) order by p.id desc limit 1000)
  union all
  select * from public.giftcard_orders_of_customer(
    case when strpos(p_text, '@') > 0 then left(lower(p_text), 254) end,
    case when p_text ~ '^[A-Za-z0-9]{5,14}$' then upper(p_text) end, p_tenant_id);
end $$;

-- Return how far an order has come: cancelled, failed (one of its jobs is a dead letter), delivered (the mail server
-- has accepted its mail), issued, paid or new.
create function public.giftcard_order_state(o public.giftcard_orders) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return case
    when o.cancelled_at is not null then 'cancelled'
    -- Not a condition of the query, for which it might read all dead letters.
    when 'error' = any (array(select j.status from public.giftcard_jobs j
                  where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                    and not public.giftcard_is_webhook(j.stage))) then 'failed'
    when exists (select from public.giftcard_effects e
                  where e.tenant_id = o.tenant_id and e.correlation_id = o.correlation_id and e.stage = 'email'
                    and e.result is not null) then 'delivered'
    when exists (select from public.giftcard_cards c
                  where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id) then 'issued'
    when exists (select from public.giftcard_payments p
                  where p.tenant_id = o.tenant_id and p.correlation_id = o.correlation_id) then 'paid'
    else 'new' end;
end $$;

-- Return the recipient of an order in clear: {email, given_name, family_name}; null: their customer is erased.
create function public.giftcard_order_recipient(p_details jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_details -> 'customer') = 'object' then jsonb_build_object(
    'email', left(p_details #>> '{customer,email}', 254),
    'given_name', left(p_details #>> '{customer,given_name}', 200),
    'family_name', left(p_details #>> '{customer,family_name}', 200)) end;
end $$;

-- Find orders by a text, the newest first, at most 50: {orders: [{tenant_id, correlation_id, created_at, amount,
-- currency, free_of_charge, cancelled_at, state, recipient, card: {last4, state} or null, matched: the ways}], more}.
create function public.giftcard_find_orders(
  p_text text, p_limit integer default 50, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 50);
  v_found jsonb[];
begin
  if coalesce(p_text, '') = '' then
    perform public.giftcard_refuse('GC400', 'give what to search for', 'text');
  end if;
  v_found := array(
    select jsonb_build_object(
        'tenant_id', (n.o).tenant_id, 'correlation_id', (n.o).correlation_id, 'created_at', (n.o).created_at,
        'amount', (n.o).amount, 'currency', left((n.o).currency, 20), 'free_of_charge', (n.o).free_of_charge,
        'cancelled_at', (n.o).cancelled_at, 'state', public.giftcard_order_state(n.o),
        'recipient', public.giftcard_order_recipient((n.o).details),
        'card', (select jsonb_build_object('last4', c.last4, 'state', c.state) from public.giftcard_cards c
                  where c.tenant_id = (n.o).tenant_id and c.correlation_id = (n.o).correlation_id),
        'matched', n.matched)
      from (
        select o::public.giftcard_orders, m.matched
          from (select f.tenant_id, f.correlation_id, array_agg(distinct f.matched order by f.matched) as matched
                  from public.giftcard_order_matches(p_text, p_tenant_id) f
                 group by f.tenant_id, f.correlation_id) m
         -- By the key, one by one: a join might read all orders.
         cross join lateral (
           select * from public.giftcard_orders x
            where x.tenant_id = m.tenant_id and x.correlation_id = m.correlation_id limit 1) o
         order by o.created_at desc, o.tenant_id, o.correlation_id limit v_limit + 1) n
     order by (n.o).created_at desc, (n.o).tenant_id, (n.o).correlation_id);
  return jsonb_build_object('orders', to_jsonb(v_found[:v_limit]), 'more', cardinality(v_found) > v_limit);
end $$;
