-- Orders, customers, codes, payments, cards: one function each, each safe to repeat.

-- Accept an order and enqueue its first job, in one transaction. The same idempotency key (or correlation id) with the
-- same body returns the same order; with another body it is refused: GC422 for the key, GC409 for the correlation id.
-- Return {correlation_id, created, job_id}.
create function public.giftcard_submit_order(
  p_tenant_id text, p_correlation_id text, p_body_hash text, p_payload jsonb, p_idempotency_key text default null,
  p_trigger_type text default 'api', p_job jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  v_job json;
begin
  insert into public.giftcard_orders (tenant_id, correlation_id, idempotency_key, body_hash, amount, currency,
                                      created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_body_hash, (p_payload #>> '{amount,amount}')::bigint,
          p_payload #>> '{amount,currency}', v_now)
  on conflict do nothing
  returning * into o;
  if found then
    v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'customer_ingest', 'payload', p_payload,
      'trigger_type', p_trigger_type) || p_job), false, p_now) -> 0;
    return jsonb_build_object('correlation_id', p_correlation_id, 'created', true, 'job_id', v_job -> 'id');
  end if;
  select * into o from public.giftcard_orders where tenant_id = p_tenant_id and idempotency_key = p_idempotency_key;
  if found and o.body_hash <> p_body_hash then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another order', 'Idempotency-Key');
  elsif not found then
    select * into strict o from public.giftcard_orders
      where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    if o.body_hash <> p_body_hash then
      perform public.giftcard_refuse(
        'GC409', format('correlation id %s belongs to another order', p_correlation_id), 'correlation_id');
    end if;
  end if;
  -- An order outlives its jobs: sent again, it makes no new ones, archived or not.
  return jsonb_build_object('correlation_id', o.correlation_id, 'created', false, 'job_id', coalesce(
    (select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''),
    (select id from public.giftcard_jobs_archive
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''
      order by id limit 1)));
end $$;

-- Create or update a customer: one per (tenant, external id), or without one per (tenant, lower-case e-mail).
-- p_correlation_id: the order that the customer comes from, if any. Return {id, personal_code}.
create function public.giftcard_save_customer(
  p_tenant_id text, p_external_id text, p_email text, p_given_name text, p_family_name text,
  p_correlation_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_customers;
begin
  if p_external_id is null then
    insert into public.giftcard_customers (tenant_id, email, given_name, family_name, created_at, updated_at)
    values (p_tenant_id, p_email, p_given_name, p_family_name, v_now, v_now)
    on conflict (tenant_id, lower(email)) where external_id is null
    do update set email = excluded.email, given_name = excluded.given_name, family_name = excluded.family_name,
    updated_at = v_now
    returning * into c;
  else
    insert into public.giftcard_customers (tenant_id, external_id, email, given_name, family_name, created_at,
                                           updated_at)
    values (p_tenant_id, p_external_id, p_email, p_given_name, p_family_name, v_now, v_now)
    on conflict on constraint giftcard_customers_external_id_key
    do update set email = excluded.email, given_name = excluded.given_name, family_name = excluded.family_name,
    updated_at = v_now
    returning * into c;
  end if;
  update public.giftcard_orders set customer_id = c.id
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and customer_id is distinct from c.id;
  return jsonb_build_object('id', c.id, 'personal_code', c.personal_code);
end $$;

-- Assign a customer the first free of some codes. A customer that has one keeps it. Return {code, assigned}; code null:
-- all are taken, or another transaction took it first: try others.
create function public.giftcard_assign_code(
  p_customer_id bigint, p_candidates text[], p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_customers;
  v_code text;
  v_constraint text;
begin
  select * into c from public.giftcard_customers where id = p_customer_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('customer %s does not exist', p_customer_id), 'customer_id');
  elsif c.personal_code is not null then
    return jsonb_build_object('code', c.personal_code, 'assigned', false);
  end if;
  select candidate into v_code
    from unnest(p_candidates) with ordinality u(candidate, n)
   where not exists (select from public.giftcard_customers x
                     where x.tenant_id = c.tenant_id and x.personal_code = u.candidate)
   order by u.n limit 1;
  if v_code is not null then
    update public.giftcard_customers set personal_code = v_code, updated_at = coalesce(p_now, clock_timestamp())
      where id = p_customer_id;
  end if;
  return jsonb_build_object('code', v_code, 'assigned', v_code is not null);
exception when unique_violation then
  get stacked diagnostics v_constraint = constraint_name;
  if v_constraint <> 'giftcard_customers_personal_code_key' then
    raise;
  end if;
  return jsonb_build_object('code', null, 'assigned', false);
end $$;

-- Record a payment: one per order, and one per idempotency key. Return the recorded one: the first.
create function public.giftcard_record_payment(
  p_tenant_id text, p_correlation_id text, p_idempotency_key text, p_provider text, p_amount bigint, p_currency text,
  p_provider_ref text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_payment jsonb;
begin
  insert into public.giftcard_payments (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount,
                                        currency, created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_provider,
          coalesce(p_provider_ref, 'ledger:' || p_idempotency_key),
          p_amount, p_currency, coalesce(p_now, clock_timestamp()))
  on conflict do nothing;
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider) into v_payment
    from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  if v_payment is null then
    perform public.giftcard_refuse(
      'GC409', 'this idempotency key belongs to the payment of another order', 'idempotency_key');
  end if;
  return v_payment;
end $$;

-- Return the payment made under an idempotency key; null: none.
create function public.giftcard_find_payment(p_idempotency_key text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider)
    from public.giftcard_payments where idempotency_key = p_idempotency_key
$$;

-- Record a card, one per order, and link the order's payment to it. Return the recorded one: the first. A number that
-- another card has is a unique violation of giftcard_cards_number_key.
create function public.giftcard_record_card(
  p_tenant_id text, p_correlation_id text, p_customer_id bigint, p_provider text, p_provider_ref text,
  p_number_encrypted text,
  p_number_hash text, p_last4 text, p_amount bigint, p_currency text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_cards;
begin
  insert into public.giftcard_cards
    (tenant_id, correlation_id, customer_id, provider, provider_ref, number_encrypted, number_hash, last4, amount,
     balance, currency, created_at)
  values (p_tenant_id, p_correlation_id, p_customer_id, p_provider, p_provider_ref, p_number_encrypted, p_number_hash,
          p_last4,
          p_amount, p_amount, p_currency, coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_cards_order_key do nothing;
  select * into strict c from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  update public.giftcard_payments set card_id = c.id
    where tenant_id = p_tenant_id and correlation_id = p_correlation_id and card_id is null;
  return jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash,
                            'last4', c.last4);
end $$;

-- Return the card of an order, with its number as stored: encrypted. null: none.
create function public.giftcard_find_card(p_tenant_id text, p_correlation_id text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash,
                            'last4', c.last4, 'amount', c.amount, 'currency', c.currency,
                            'personal_code', u.personal_code)
    from public.giftcard_cards c
    left join public.giftcard_customers u on u.id = c.customer_id
   where c.tenant_id = p_tenant_id and c.correlation_id = p_correlation_id
$$;

-- Return whether the jobs of a stage only notify of what other jobs have done: they are sent as written, and are no
-- part of a flow's work. The engine asks here: it names no stage itself.
create function public.giftcard_is_webhook(p_stage text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_stage = 'webhook';
end $$;

-- Return whether an order was paid, has no card, and nothing of its flow is queued or runs but webhooks: the job that
-- should issue the card is dead, cancelled or missing. A dead letter counts although it may revive tomorrow: today the
-- customer has paid for nothing. The callers filter card_id is null themselves, for the planner.
create function public.giftcard_is_paid_without_card(p public.giftcard_payments) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  return p.card_id is null and not exists (
    select from public.giftcard_jobs j
     where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id and j.status in ('queued', 'running')
       and not public.giftcard_is_webhook(j.stage));
end $$;

-- Return orders paid without a card, the oldest payment first, each with the newest dead or cancelled job of its flow.
create function public.giftcard_paid_without_card(p_limit integer default 100)
returns table (tenant_id text, correlation_id text, amount bigint, currency text, paid_at timestamptz, stage text,
               status text, last_error text)
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select p.tenant_id, p.correlation_id, p.amount, p.currency, p.created_at, d.stage, d.status, d.last_error
    from public.giftcard_payments p
    left join lateral (
      select j.stage, j.status, j.last_error from public.giftcard_jobs j
       where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id and j.status in ('error', 'cancelled')
         and not public.giftcard_is_webhook(j.stage)
       order by j.id desc limit 1) d on true
   where p.card_id is null and public.giftcard_is_paid_without_card(p)
   order by p.created_at, p.id limit least(p_limit, 1000)
$$;
