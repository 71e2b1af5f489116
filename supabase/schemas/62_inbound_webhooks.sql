-- Inbound webhooks: events that vendors send. Each counts once, for good.

create table public.giftcard_inbound_events (
  source text collate "C" not null,
  event_id text collate "C" not null,
  type text collate "C" not null,
  kind text not null,
  tenant_id text collate "C" not null,
  correlation_id text collate "C",
  facts jsonb not null default '{}',
  received_at timestamptz not null,
  constraint giftcard_inbound_events_pkey primary key (source, event_id),
  constraint giftcard_inbound_events_became_is_known check (kind in ('job', 'payment', 'card', 'ignored', 'unknown'))
);
create index giftcard_inbound_events_payments on public.giftcard_inbound_events (tenant_id, correlation_id)
    where kind = 'payment';

comment on table public.giftcard_inbound_events is
  'One row is an event of a vendor, never removed: sent again, even years later, it does nothing. It holds no '
  'personal data.';
comment on column public.giftcard_inbound_events.kind is
  'job: it was enqueued. payment: an order is paid. card: a card of ours has changed. ignored: facts hold the '
  'reason. unknown: no type that is handled here.';
comment on column public.giftcard_inbound_events.correlation_id is
  'Of a payment: the order that it names, whether or not there is one yet.';

-- Make a job of a flow due at once: a queued one, or a running one in case its run ends in a snooze. Return whether
-- there was one.
create function public.giftcard_make_due(
  p_tenant_id text, p_correlation_id text, p_stage text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = p_stage and dedup_key = ''
     and (status = 'running' or status = 'queued' and scheduled_at > v_now);
  return found;
end $$;

-- Update the balance and state of a gift card, found by the vendor's reference. p_card: {reference, balance, currency,
-- blocked (null: unchanged), at}. Events may arrive in any order: one that is older than the last one changes nothing.
-- Return why it changed nothing; null: it did.
create function public.giftcard_update_card(p_tenant_id text, p_card jsonb) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_at timestamptz := (p_card ->> 'at')::timestamptz;
  v_balance bigint := (p_card ->> 'balance')::bigint;
  c public.giftcard_cards;
begin
  select * into c from public.giftcard_cards
   where tenant_id = p_tenant_id and provider_ref = p_card ->> 'reference' order by id limit 1 for update;
  if not found then
    return 'no card of ours';
  elsif c.currency <> p_card ->> 'currency' then
    return 'another currency';
  elsif c.vendor_updated_at >= v_at then
    return 'not the newest';
  end if;
  update public.giftcard_cards
     set balance = v_balance, vendor_updated_at = v_at,
         state = case when coalesce((p_card ->> 'blocked')::boolean, state = 'blocked') then 'blocked'
                      when v_balance = 0 then 'redeemed' else 'active' end
   where id = c.id;
  return null;
end $$;

-- Receive an event, once: sent again, at the same time or years later, it changes nothing. p_action: what it means
-- here, one of job (to enqueue), payment ({correlation_id, reference, amount, currency}), card (as giftcard_update_card
-- takes it), ignored (the reason); none of them: an unknown type. Return {kind, repeated}.
create function public.giftcard_receive_event(
  p_source text, p_event_id text, p_type text, p_tenant_id text, p_action jsonb,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_kind text := case when p_action ? 'job' then 'job' when p_action ? 'payment' then 'payment' when p_action ? 'card'
                      then 'card'
                        when p_action ? 'ignored' then 'ignored' else 'unknown' end;
  v_why text := p_action ->> 'ignored';
begin
  -- Of two deliveries at once, the second waits here and finds the first.
  insert into public.giftcard_inbound_events (source, event_id, type, kind, tenant_id, correlation_id, facts,
                                              received_at)
  values (p_source, p_event_id, p_type, v_kind, p_tenant_id, p_action #>> '{payment,correlation_id}',
          coalesce(p_action -> 'payment', '{}') - 'correlation_id', coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_inbound_events_pkey do nothing;
  if not found then
    return (select jsonb_build_object('kind', kind, 'repeated', true) from public.giftcard_inbound_events
             where source = p_source and event_id = p_event_id);
  elsif v_kind = 'job' then
    perform public.giftcard_enqueue(jsonb_build_array(p_action -> 'job'), false, p_now);
  elsif v_kind = 'payment' then
    perform public.giftcard_make_due(p_tenant_id, p_action #>> '{payment,correlation_id}', 'payment', p_now);
  elsif v_kind = 'card' then
    v_why := public.giftcard_update_card(p_tenant_id, p_action -> 'card');
  end if;
  if v_why is not null then
    v_kind := 'ignored';
    update public.giftcard_inbound_events set kind = v_kind, facts = jsonb_build_object('why', v_why)
     where source = p_source and event_id = p_event_id;
  end if;
  return jsonb_build_object('kind', v_kind, 'repeated', false);
end $$;

-- Return the payment received for an order: {reference, amount, currency}; of several the one over this amount, else
-- the first. null: none.
create function public.giftcard_inbound_payment(
  p_tenant_id text, p_correlation_id text, p_amount bigint, p_currency text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select facts from public.giftcard_inbound_events
   where kind = 'payment' and tenant_id = p_tenant_id and correlation_id = p_correlation_id
   order by facts @> jsonb_build_object('amount', p_amount, 'currency', p_currency) desc, received_at, event_id limit 1
$$;
