-- What operators decide about orders. Each decision has a row in the audit.

-- Refuse an order that is free of charge although no operator has decided so.
create function public.giftcard_require_decision() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.giftcard_audit
                  where action = 'free_of_charge' and subject = 'order ' || new.correlation_id
                    and tenant_id = new.tenant_id) then
    raise exception 'order % is free of charge only by giftcard_make_free_of_charge', new.correlation_id
      using errcode = '23514', constraint = 'giftcard_orders_free_of_charge_is_audited', table = 'giftcard_orders',
            schema = 'public';
  end if;
  return new;
end $$;
create trigger giftcard_orders_free_of_charge_is_audited before insert or update of free_of_charge
    on public.giftcard_orders for each row when (new.free_of_charge)
    execute function public.giftcard_require_decision();

-- Make an order free of charge: its card needs no payment. Return {correlation_id, free_of_charge}. GC404 for an
-- unknown order. GC409 for one that is cancelled, paid, or whose charge has begun.
create function public.giftcard_make_free_of_charge(
  p_tenant_id text, p_correlation_id text, p_reason text, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_problem text;
  o public.giftcard_orders;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  v_problem := case
    when o.cancelled_at is not null then 'is cancelled'
    when exists (select from public.giftcard_payments
                  where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then 'is paid'
    when exists (select from public.giftcard_effects
                  where tenant_id = p_tenant_id and correlation_id = p_correlation_id and name = 'charge'
                    and started_at is not null) then 'is being charged' end;
  if v_problem is not null then
    perform public.giftcard_refuse('GC409', format('order %s %s', p_correlation_id, v_problem), 'correlation_id');
  elsif not o.free_of_charge then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'free_of_charge', 'order ' || p_correlation_id,
      jsonb_build_object('reason', p_reason, 'amount', o.amount, 'currency', o.currency), p_now);
    update public.giftcard_orders set free_of_charge = true
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    perform public.giftcard_make_due(p_tenant_id, p_correlation_id, 'payment', p_now);
  end if;
  return jsonb_build_object('correlation_id', p_correlation_id, 'free_of_charge', true);
end $$;

-- Correct the recipient of an order: p_customer has the fields to change, of email, given_name and family_name. Jobs
-- that run after it read the new ones. Return {correlation_id, changed: the names of the fields that differ}. GC404 for
-- an unknown order, GC409 once the customer is erased, GC400 for another field.
create function public.giftcard_correct_recipient(
  p_tenant_id text, p_correlation_id text, p_customer jsonb, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_customer jsonb;
  v_changed text[];
  o public.giftcard_orders;
begin
  if jsonb_typeof(p_customer) is distinct from 'object'
     or p_customer - '{email,given_name,family_name}'::text[] <> '{}' then
    perform public.giftcard_refuse('GC400', 'only email, given_name and family_name can be corrected', 'customer');
  end if;
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  elsif jsonb_typeof(o.details -> 'customer') is distinct from 'object' then
    perform public.giftcard_refuse(
      'GC409', format('the customer of order %s was erased', p_correlation_id), 'correlation_id');
  end if;
  v_customer := o.details -> 'customer';
  v_changed := array(select k from jsonb_object_keys(p_customer) k
                      where v_customer -> k is distinct from p_customer -> k order by k);
  if v_changed <> '{}' then
    update public.giftcard_orders
       set details = jsonb_set(details, '{customer}', v_customer || p_customer)
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'correct_recipient', 'order ' || p_correlation_id,
      jsonb_build_object('changed', v_changed), p_now);
  end if;
  return jsonb_build_object('correlation_id', p_correlation_id, 'changed', to_jsonb(v_changed));
end $$;

-- Accept a difference that giftcard_reconcile returns: it is not shown again unless its amount changes. p_item: its
-- reference. Return {kind, tenant_id, item, amount}. GC404 for none.
create function public.giftcard_accept_difference(
  p_kind text, p_tenant_id text, p_item text, p_reason text, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_amount bigint := (select r.amount from public.giftcard_reconcile(p_tenant_id) r
                       where r.kind = p_kind and r.reference = p_item limit 1);
  v_accepted jsonb := jsonb_build_object('kind', p_kind, 'tenant_id', p_tenant_id, 'item', p_item, 'amount', v_amount);
begin
  if v_amount is null then
    perform public.giftcard_refuse('GC404', format('there is no difference %s of %s', p_kind, p_item), 'reference');
  end if;
  insert into public.giftcard_accepted_differences (kind, tenant_id, item, amount, by, reason, accepted_at)
  values (p_kind, p_tenant_id, p_item, v_amount, public.giftcard_actor(p_by), p_reason, v_now)
  on conflict on constraint giftcard_accepted_differences_pkey do update set
    amount = excluded.amount, by = excluded.by, reason = excluded.reason, accepted_at = excluded.accepted_at;
  perform public.giftcard_record_act(
    p_by, p_tenant_id, 'accept_difference', p_kind || ' ' || p_item,
    jsonb_build_object('amount', v_amount, 'reason', p_reason), v_now);
  return v_accepted;
end $$;

-- Enqueue the job that blocks the card of an order in any case, unless such a job waits or runs. Return
-- {correlation_id, job_id, created}. GC404 for no card.
create function public.giftcard_request_block(
  p_tenant_id text, p_correlation_id text, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_job_id bigint;
begin
  perform from public.giftcard_cards
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse('GC404', format('order %s has no card', p_correlation_id), 'correlation_id');
  end if;
  select id into v_job_id from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'block_card'
     and status in ('queued', 'running') and payload -> 'force' = 'true' order by id limit 1;
  if v_job_id is not null then
    return jsonb_build_object('correlation_id', p_correlation_id, 'job_id', v_job_id, 'created', false);
  end if;
  v_job_id := (public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'block_card',
      'trigger_type', 'operator', 'source', 'app', 'payload', '{"force": true}'::jsonb,
      'dedup_key', 'operator:' || to_char(v_now at time zone 'UTC', 'YYYYMMDD"T"HH24MISS.US'))), p_now => p_now)
    -> 0 ->> 'id')::bigint;
  perform public.giftcard_record_act(
    p_by, p_tenant_id, 'block_card', 'order ' || p_correlation_id, jsonb_build_object('job_id', v_job_id), v_now);
  return jsonb_build_object('correlation_id', p_correlation_id, 'job_id', v_job_id, 'created', true);
end $$;

-- Reopen the order of a job that had ended and is queued again, by whatever means: its stages work on again.
create function public.giftcard_reopen_order() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_orders set cancelled_at = null
   where tenant_id = new.tenant_id and correlation_id = new.correlation_id and cancelled_at is not null
     and not public.giftcard_is_webhook(new.stage);
  return null;
end $$;
create trigger giftcard_jobs_reopen_their_order after update of status on public.giftcard_jobs
    for each row when (old.status in ('cancelled', 'completed') and new.status = 'queued')
    execute function public.giftcard_reopen_order();
