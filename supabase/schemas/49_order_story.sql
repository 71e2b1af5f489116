-- The story of an order: all that is known of it, from its intake to its mail, in one call. Each list is bounded.

-- Return the payments of an order and those that only name it, the newest 20, each with its newest 50 events:
-- [{provider, reference, amount, currency, worth, accepted, created_at, events: [{kind, amount, is_total, as_of,
-- recorded_at}]}].
create function public.giftcard_story_payments(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'provider', left(p.provider, 200), 'reference', left(p.provider_ref, 500), 'amount', p.amount,
        'currency', left(p.currency, 20), 'worth', p.worth, 'accepted', p.correlation_id is not null,
        'created_at', p.created_at,
        'events', (select coalesce(jsonb_agg(jsonb_build_object(
              'kind', e.kind, 'amount', e.amount, 'is_total', e.is_total, 'as_of', e.as_of,
              'recorded_at', e.recorded_at) order by e.recorded_at, e.event_id), '[]')
            from (select * from public.giftcard_payment_events x where x.payment_id = p.id
                  order by x.recorded_at desc, x.event_id limit 50) e)) order by p.created_at, p.id), '[]')
      from (
        select * from (
          (select * from public.giftcard_payments a
            where a.tenant_id = p_tenant_id and a.correlation_id = p_correlation_id)
          union all
          (select * from public.giftcard_payments b
            where b.tenant_id = p_tenant_id and b.named_order = p_correlation_id and b.correlation_id is null
            order by b.id desc limit 20)) u
         order by u.correlation_id is null, u.id desc limit 20) p);
end $$;

-- Return the newest jobs of a flow, also archived ones, as giftcard_flow_jobs does, with created_at, trigger_type,
-- locked_at (null: it does not run) and waiting_for (of the newest 20).
create function public.giftcard_story_jobs(
  p_tenant_id text, p_correlation_id text, p_limit integer, p_stages jsonb, p_missing jsonb, p_now timestamptz)
returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select f.job || coalesce(
        (select jsonb_build_object(
             'created_at', j.created_at, 'trigger_type', left(j.trigger_type, 100),
             'locked_at', case when j.status = 'running' then j.locked_at end,
             'waiting_for', case when f.n <= 20 then public.giftcard_waiting_for(j, p_stages, p_missing, p_now) end)
           from public.giftcard_jobs j where j.id = (f.job ->> 'id')::bigint),
        (select jsonb_build_object('created_at', x.job -> 'created_at', 'trigger_type',
                                   left(x.job ->> 'trigger_type', 100), 'locked_at', null, 'waiting_for', null)
           from public.giftcard_jobs_archive a
          cross join lateral public.giftcard_archived_job_json(a) x(job)
          where a.id = (f.job ->> 'id')::bigint), '{}')
      from unnest(public.giftcard_flow_jobs(p_tenant_id, p_correlation_id, null, p_limit))
           with ordinality f(job, n)
     order by f.n);
end $$;

-- Return the runs of some jobs, the newest first: of each job the newest 20, of all 200. One row more: there are
-- more.
create function public.giftcard_story_runs(p_ids bigint[]) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select jsonb_build_object(
        'job_id', h.job_id, 'run_no', h.run_no, 'stage', left(h.stage, 100), 'attempt', h.attempt,
        'status', h.result, 'started_at', h.started_at, 'finished_at', h.finished_at,
        'duration_ms', public.giftcard_milliseconds(h.started_at, h.finished_at), 'error', left(h.error, 500),
        'next_run_at', h.next_run_at)
      from unnest(p_ids) i(id)
     cross join lateral (
       select * from public.giftcard_job_history r where r.job_id = i.id order by r.run_no desc limit 20) h
     order by h.finished_at desc, h.job_id desc, h.run_no desc limit 201);
end $$;

-- Return the acts of operators about some subjects of a tenant, the newest first, up to 51: [{at, by, action, subject,
-- details}].
create function public.giftcard_story_acts(p_tenant_id text, p_subjects text[]) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select public.giftcard_readable_row(jsonb_build_object(
        'at', a.at, 'by', a.by, 'action', a.action, 'subject', left(a.subject, 500), 'details', a.details), 20000)
      from unnest(p_subjects) s(subject)
     cross join lateral (
       select * from public.giftcard_audit x
        where x.subject = s.subject and x.tenant_id = p_tenant_id order by x.id desc limit 51) a
     order by a.id desc limit 51);
end $$;

-- Return where the books of an order do not match, as giftcard_reconcile does.
create function public.giftcard_story_differences(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(public.giftcard_readable_row(
             to_jsonb(d) || jsonb_build_object('action', public.giftcard_difference_action(d.kind)), 20000)), '[]')
      from (
        select * from (
          select * from public.giftcard_differences_without_card(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_money(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_cards(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_effects(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_events(p_tenant_id)) x
         where x.tenant_id = p_tenant_id and x.correlation_id = p_correlation_id
         order by x.since, x.kind, x.reference limit 20) d);
end $$;

-- Return the order of a story with its recipient in clear, its card (last four digits) and its effects: {order, card,
-- effects: [{stage, dedup_key, name, started_at, finished_at, message_id, note}]}.
create function public.giftcard_story_books(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return jsonb_build_object(
    'order', (select public.giftcard_readable_row(jsonb_build_object(
                'amount', o.amount, 'currency', o.currency, 'locale', o.locale, 'free_of_charge', o.free_of_charge,
                'cancelled_at', o.cancelled_at, 'created_at', o.created_at,
                'deliver_at', left(o.details ->> 'deliver_at', 100), 'customer_id', o.customer_id,
                'recipient', public.giftcard_order_recipient(o.details)), 20000)
                from public.giftcard_orders o
               where o.tenant_id = p_tenant_id and o.correlation_id = p_correlation_id),
    'card', (select public.giftcard_readable_row(jsonb_build_object(
               'last4', c.last4, 'amount', c.amount, 'balance', c.balance, 'currency', c.currency,
               'unpaid', c.unpaid, 'state', c.state, 'provider', c.provider, 'issued_at', c.created_at,
               'state_as_of', c.state_as_of), 20000)
               from public.giftcard_cards c
              where c.tenant_id = p_tenant_id and c.correlation_id = p_correlation_id),
    'effects', (select coalesce(jsonb_agg(jsonb_build_object(
                  'stage', left(e.stage, 100), 'dedup_key', left(e.dedup_key, 200), 'name', left(e.name, 100),
                  'started_at', e.started_at, 'finished_at', e.finished_at,
                  'message_id', left(e.result ->> 'message_id', 300), 'note', left(e.note, 200))), '[]')
                  from (select * from public.giftcard_effects x
                         where x.tenant_id = p_tenant_id and x.correlation_id = p_correlation_id
                         order by x.stage, x.dedup_key, x.name limit 100) e));
end $$;

-- Return the story of an order: {now, tenant_id, correlation_id, order, card, effects, payments, jobs, runs, acts,
-- differences, more: the names of the lists that are cut}. p_stages, p_missing: as in giftcard_waiting_for. A flow that
-- began without an order has one, too. GC404 for an unknown one.
create function public.giftcard_order_story(
  p_tenant_id text, p_correlation_id text, p_stages jsonb default null, p_missing jsonb default '{}',
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_books jsonb := public.giftcard_story_books(p_tenant_id, p_correlation_id);
  v_jobs jsonb[] := public.giftcard_story_jobs(p_tenant_id, p_correlation_id, 101, p_stages, p_missing, v_now);
  v_ids bigint[];
  v_runs jsonb[];
  v_acts jsonb[];
begin
  if v_jobs = '{}' and v_books -> 'order' = 'null' then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  v_ids := array(select (j ->> 'id')::bigint from unnest(v_jobs[:100]) j);
  v_runs := public.giftcard_story_runs(v_ids);
  v_acts := public.giftcard_story_acts(p_tenant_id, array[
      'order ' || p_correlation_id, 'flow ' || p_correlation_id, 'customer ' || (v_books #>> '{order,customer_id}')]
    || array(select 'job ' || i from unnest(v_ids) i));
  return v_books || jsonb_build_object(
    'now', v_now, 'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
    'payments', public.giftcard_story_payments(p_tenant_id, p_correlation_id),
    'jobs', to_jsonb(v_jobs[:100]), 'runs', to_jsonb(v_runs[:200]), 'acts', to_jsonb(v_acts[:50]),
    'differences', public.giftcard_story_differences(p_tenant_id, p_correlation_id),
    'more', array_remove(array[
      case when cardinality(v_jobs) > 100 then 'jobs' end,
      case when cardinality(v_runs) > 200 or exists (
             select from unnest(v_runs) r group by r -> 'job_id'
             having count(*) = 20 and min((r ->> 'run_no')::integer) > 1) then 'runs' end,
      case when cardinality(v_acts) > 50 then 'acts' end], null));
end $$;
