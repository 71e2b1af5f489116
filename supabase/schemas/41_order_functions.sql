-- Orders, customers, codes: one function each, each safe to repeat.

-- Accept an order and enqueue its first job, in one transaction. The same idempotency key (or correlation id) with the
-- same body returns the same order; with another body it is refused: GC422 for the key, GC409 for the correlation id.
-- Return {correlation_id, created, job_id, page_id}; with p_wake, of a new order also wake: the caller is to wake a
-- tick.
create function public.giftcard_submit_order(
  p_tenant_id text, p_correlation_id text, p_body_hash text, p_payload jsonb, p_idempotency_key text default null,
  p_trigger_type text default 'api', p_job jsonb default '{}', p_now timestamptz default null,
  p_wake boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  v_order jsonb;
  v_job json;
begin
  -- The hooks' payload, if they have changed it.
  v_order := coalesce(p_job -> 'payload', p_payload);
  insert into public.giftcard_orders (tenant_id, correlation_id, idempotency_key, body_hash, amount, currency, details,
                                      created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_body_hash, (v_order #>> '{amount,amount}')::bigint,
          v_order #>> '{amount,currency}', v_order - 'amount', v_now)
  on conflict do nothing
  returning * into o;
  if found then
    v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'customer_ingest', 'payload', p_payload,
      'trigger_type', p_trigger_type, 'source', 'app') || p_job), p_now => p_now) -> 0;
    return jsonb_build_object('correlation_id', p_correlation_id, 'created', true, 'job_id', v_job -> 'id',
                              'page_id', o.page_id)
           || case when p_wake then jsonb_build_object('wake', public.giftcard_wake_next(
                     '{"mode": "url"}', 1, false, v_now))
                   else '{}' end;
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
  return jsonb_build_object('correlation_id', o.correlation_id, 'created', false, 'page_id', o.page_id,
                            'job_id', coalesce(
    (select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''),
    (select id from public.giftcard_jobs_archive
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''
      order by id limit 1)));
end $$;

-- Return the books of an order: {order: {amount, currency, details, customer_id, free_of_charge, cancelled, page_id},
-- payment: {reference, amount, currency, worth, provider}, or null, card: {id, reference, number_encrypted,
-- number_hash, last4, state, unpaid, provider, personal_code}, or null}. null: there is no such order.
create function public.giftcard_books(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select jsonb_build_object(
      'order', jsonb_build_object(
        'amount', o.amount, 'currency', o.currency, 'details', public.giftcard_readable(o.details, 100000),
        'customer_id', o.customer_id, 'free_of_charge', o.free_of_charge, 'cancelled', o.cancelled_at is not null,
        'page_id', o.page_id),
      'payment', (
        select jsonb_build_object('reference', p.provider_ref, 'amount', p.amount, 'currency', p.currency,
                                  'worth', p.worth, 'provider', p.provider)
          from public.giftcard_payments p
         where p.tenant_id = o.tenant_id and p.correlation_id = o.correlation_id),
      'card', (
        select jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                                  'number_hash', c.number_hash, 'last4', c.last4, 'state', c.state,
                                  'unpaid', c.unpaid, 'provider', c.provider, 'personal_code', u.personal_code)
          from public.giftcard_cards c
          left join public.giftcard_customers u on u.id = c.customer_id
         where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id))
      from public.giftcard_orders o where o.tenant_id = p_tenant_id and o.correlation_id = p_correlation_id);
end $$;

-- Take in the order of a flow that began without one (with a plain INSERT, or a message): the first job that needs it
-- fixes it. p_order: {customer, amount: {amount, currency}, message, deliver_at, locale}. An order that is there stays
-- as it is. Return its books, as giftcard_books does.
create function public.giftcard_take_order(
  p_tenant_id text, p_correlation_id text, p_order jsonb, p_body_hash text, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, details, created_at)
  values (p_tenant_id, p_correlation_id, p_body_hash, (p_order #>> '{amount,amount}')::bigint,
          p_order #>> '{amount,currency}', p_order - 'amount', coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_orders_pkey do nothing;
  return public.giftcard_books(p_tenant_id, p_correlation_id);
end $$;

-- Create or update a customer: one per (tenant, external id), or without one per (tenant, lower-case e-mail).
-- p_correlation_id: the order that the customer comes from, if any. Return {id, personal_code}. GC409 if the order
-- belongs to another customer.
create function public.giftcard_save_customer(
  p_tenant_id text, p_external_id text, p_email text, p_given_name text, p_family_name text,
  p_correlation_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_customers;
  v_owner bigint;
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
  update public.giftcard_orders set customer_id = coalesce(customer_id, c.id)
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and customer_id is distinct from c.id
   returning customer_id into v_owner;
  if v_owner <> c.id then
    perform public.giftcard_refuse(
      'GC409', format('order %s belongs to another customer', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('id', c.id, 'personal_code', c.personal_code);
end $$;

-- Assign a customer the first free of some codes. A customer that has one keeps it. Return {code, assigned}; code null:
-- all are taken, or another transaction took it first: try others.
create function public.giftcard_assign_code(
  p_customer_id bigint, p_candidates text[], p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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

-- Return whether the jobs of a stage only notify of what other jobs have done: they are sent as written, and are no
-- part of a flow's work. The engine asks here: it names no stage itself.
create function public.giftcard_is_webhook(p_stage text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_stage = 'webhook';
end $$;
