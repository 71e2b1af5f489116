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
  constraint giftcard_inbound_events_became_is_known check (
    kind in ('job', 'payment', 'card', 'kept', 'ignored', 'unknown'))
);
create index giftcard_inbound_events_kept on public.giftcard_inbound_events
    (tenant_id, (facts ->> 'reference') collate "C")
    where kind = 'kept';

create index giftcard_inbound_events_refused on public.giftcard_inbound_events (received_at)
    where kind = 'ignored' and facts ? 'movement';

-- Events that nothing can be done with: `why` names the field at fault.
create index giftcard_inbound_events_unusable on public.giftcard_inbound_events (received_at)
    where kind = 'ignored' and starts_with(facts ->> 'why', 'not as expected');

comment on table public.giftcard_inbound_events is
  'One row is an event of a vendor, never removed: sent again, even years later, it does nothing. It holds no '
  'personal data.';
comment on column public.giftcard_inbound_events.kind is
  'job: it was enqueued. payment: the books have its movements. card: a card of ours has changed. kept: facts hold '
  'what to apply once the card is ours. ignored: facts hold the reason. unknown: no type that is handled here.';
comment on column public.giftcard_inbound_events.correlation_id is
  'Of a payment: the order that it names, if the event has that, whether or not there is one yet.';

-- Make the jobs of a stage in a flow due at once: queued ones, and running ones in case their run ends in a snooze.
-- Return whether there was one.
create function public.giftcard_make_due(
  p_tenant_id text, p_correlation_id text, p_stage text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where id = any (array(
     select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = p_stage
        and (status = 'running' or status = 'queued' and scheduled_at > v_now) order by id for update));
  return found;
end $$;

-- Return how many events of the last 24 hours could not be used, by source, and the last of them: {source: {events (up
-- to 1,000), type, why}}.
create function public.giftcard_unusable_events(p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(jsonb_object_agg(s.source, s.found), '{}') from (
    select u.source, jsonb_build_object(
             'events', count(*), 'type', left((array_agg(u.type order by u.received_at desc))[1], 100),
             'why', left((array_agg(u.facts ->> 'why' order by u.received_at desc))[1], 200)) as found
      from (select * from public.giftcard_inbound_events
             where kind = 'ignored' and starts_with(facts ->> 'why', 'not as expected')
               and received_at > p_now - interval '24 hours'
             order by received_at desc limit 1000) u
     group by u.source) s
$$;

-- Set what an event became: {kind, facts}.
create function public.giftcard_set_kind(p_source text, p_event_id text, p_became jsonb) returns void
language sql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  update public.giftcard_inbound_events set kind = p_became ->> 'kind', facts = p_became -> 'facts'
   where source = p_source and event_id = p_event_id
$$;

-- Record movements of payments' money, each an object of the arguments of giftcard_record_payment_event.
create function public.giftcard_record_movements(
  p_tenant_id text, p_provider text, p_movements jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  m record;
begin
  for m in
    select * from jsonb_to_recordset(p_movements) as x(
      provider_ref text, event_id text, kind text, amount bigint, currency text, named_order text, is_total boolean,
      as_of timestamptz)
  loop
    perform public.giftcard_record_payment_event(
      p_tenant_id, p_provider, m.provider_ref, m.event_id, m.kind, m.amount, m.currency, m.named_order,
      coalesce(m.is_total, false), m.as_of, p_now);
  end loop;
end $$;

-- Apply what an event means. What the books refuse is ignored: a vendor would send it again for ever. Return what the
-- event became: {kind, facts, refused: why, or null}.
create function public.giftcard_apply_action(
  p_source text, p_tenant_id text, p_action jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_facts jsonb := jsonb_build_object();
  v_kind text := 'unknown';
begin
  if p_action ? 'job' then
    v_kind := 'job';
    perform public.giftcard_enqueue(jsonb_build_array(p_action -> 'job' || '{"source": "app"}'), p_now => p_now);
  elsif p_action ? 'movements' then
    v_kind := 'payment';
    perform public.giftcard_record_movements(p_tenant_id, p_source, p_action -> 'movements', p_now);
  elsif p_action ? 'card' then
    return public.giftcard_update_card(p_tenant_id, p_action -> 'card');
  elsif p_action ? 'ignored' then
    v_kind := 'ignored';
    v_facts := jsonb_build_object('why', p_action -> 'ignored');
  end if;
  return jsonb_build_object('kind', v_kind, 'facts', v_facts);
exception when others then
  -- Refused for what it contains (lib/store/sqlstate.py); anything else may pass.
  if sqlstate !~ '^(GC4|22|23)' then
    raise;
  end if;
  return jsonb_build_object(
    'kind', 'ignored', 'refused', sqlerrm, 'facts', jsonb_build_object('why', left(sqlerrm, 500)) || case
      when p_action ? 'movements'
      then jsonb_build_object('movement', p_action #> '{movements,0,amount}',
                              'currency', p_action #> '{movements,0,currency}')
      else '{}' end);
end $$;

-- Apply the events of a card that arrived before it was ours: it has just been recorded.
create function public.giftcard_apply_kept_events(p_tenant_id text, p_reference text) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e record;
begin
  perform public.giftcard_lock_reference(p_tenant_id, p_reference);
  for e in
    select source, event_id, facts from public.giftcard_inbound_events
     where kind = 'kept' and tenant_id = p_tenant_id and facts ->> 'reference' = p_reference collate "C"
     order by (facts ->> 'at')::timestamptz, event_id
  loop
    perform public.giftcard_set_kind(
      e.source, e.event_id,
      public.giftcard_apply_action(e.source, p_tenant_id, jsonb_build_object('card', e.facts), null));
  end loop;
end $$;

-- Receive an event, once: sent again, at the same time or years later, it changes nothing. p_action: what it means
-- here, one of job (to enqueue), movements (as giftcard_record_movements takes them, at the provider p_source), card
-- (as giftcard_update_card takes it), ignored (the reason); none of them: an unknown type. Return {kind, repeated,
-- refused: why the books do not take it, so that it is ignored, or null}.
create function public.giftcard_receive_event(
  p_source text, p_event_id text, p_type text, p_tenant_id text, p_action jsonb,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_became jsonb;
begin
  -- Of two deliveries at once, the second waits here and finds the first.
  insert into public.giftcard_inbound_events (source, event_id, type, kind, tenant_id, correlation_id, received_at)
  values (p_source, p_event_id, p_type, 'unknown', p_tenant_id, p_action #>> '{movements,0,named_order}',
          coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_inbound_events_pkey do nothing;
  if not found then
    return (select jsonb_build_object('kind', kind, 'repeated', true, 'refused', null)
              from public.giftcard_inbound_events where source = p_source and event_id = p_event_id);
  end if;
  v_became := public.giftcard_apply_action(p_source, p_tenant_id, p_action, p_now);
  perform public.giftcard_set_kind(p_source, p_event_id, v_became);
  if starts_with(v_became #>> '{facts,why}', 'not as expected') then
    perform public.giftcard_increment_counters(jsonb_build_array(jsonb_build_object(
      'name', 'unusable_events', 'label', p_source, 'value', 1)));
  end if;
  return jsonb_build_object('kind', v_became ->> 'kind', 'repeated', false, 'refused', v_became ->> 'refused');
end $$;
