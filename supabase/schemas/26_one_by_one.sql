-- One by one: what a tick does after a call has failed, so that one row stops no other.

-- Do what follows a settle: enqueue webhooks, hold rates, count the results for their circuits. Arguments as in
-- giftcard_settle; p_ids: the jobs that were settled. Return the circuits that opened and closed.
create function public.giftcard_follow_up(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_guarded boolean, p_now timestamptz,
  out opened text[], out closed text[])
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  opened := '{}';
  closed := '{}';
  if p_guarded then
    r := public.giftcard_try_follow_up(p_results, p_ids, p_cooldown_seconds, p_now);
    opened := r.opened;
    closed := r.closed;
    return;
  elsif exists (select from public.giftcard_webhook_endpoints where enabled) then
    perform public.giftcard_enqueue_webhooks(p_ids, p_now);
  end if;
  if p_results @? '$[*].hold ? (@ != null)' then
    perform public.giftcard_hold_rates(p_results, p_ids, p_now);
  end if;
  if p_results @? '$[*].trips ? (@ != null)'
     or exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') then
    r := public.giftcard_count_results(p_results, p_ids, p_cooldown_seconds, p_now);
    opened := r.opened;
    closed := r.closed;
  end if;
end $$;

-- Enqueue the webhooks of jobs that have just been settled, each job's to each endpoint for itself. Those that the
-- database refuses are recorded and left out: they cost no other endpoint its events.
create function public.giftcard_enqueue_webhooks_each(p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  for r in
    select i.id as job_id, e.id as endpoint_id
      from unnest(p_ids) i(id)
     cross join lateral (
       select distinct w.id from public.giftcard_events_for(array[i.id], p_now) m
         join public.giftcard_webhook_endpoints w
           on w.tenant_id = m.tenant_id and w.enabled and m.event = any (w.events)) e
     order by i.id, e.id limit 3000
  loop
    begin
      perform public.giftcard_enqueue_webhooks(array[r.job_id], p_now, r.endpoint_id);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault(
        'webhook', format('of job %s to endpoint %s', r.job_id, r.endpoint_id),
        public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Do what follows a settle, each step for itself: enqueue webhooks, hold rates, count the results for their circuits.
-- A step that fails is recorded and left out. Return the circuits that opened and closed.
create function public.giftcard_try_follow_up(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_now timestamptz, out opened text[],
  out closed text[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_kind text;
  r record;
begin
  opened := '{}';
  closed := '{}';
  for v_kind in select k from unnest(array['webhook', 'rate', 'circuit']) with ordinality x(k, n) order by n loop
    begin
      if v_kind = 'webhook' then
        perform public.giftcard_enqueue_webhooks_each(p_ids, p_now);
      elsif v_kind = 'rate' then
        perform public.giftcard_hold_rates(p_results, p_ids, p_now);
      else
        r := public.giftcard_count_results(p_results, p_ids, p_cooldown_seconds, p_now);
        opened := r.opened;
        closed := r.closed;
      end if;
    exception when others then
      -- A circuit that someone else holds counts nothing now.
      if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
        raise;
      end if;
      perform public.giftcard_record_fault(
        v_kind, 'of job ' || p_ids[1], public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Return two objects of numbers added up: {"a": 1} and {"a": 2, "b": 3} give {"a": 3, "b": 3}.
create function public.giftcard_add(p_one jsonb, p_other jsonb) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select jsonb_object_agg(s.key, s.total) from (
    select e.key, sum(e.value::bigint) as total
      from (select * from jsonb_each_text(p_one) union all select * from jsonb_each_text(p_other)) e
     group by e.key) s
$$;

-- Settle results one by one. One that the database refuses, or whose rows someone else holds (55P03), changes nothing:
-- its `settled` is refused, with sqlstate and error; with `last_resort` in it, its job is put aside. Returns what
-- giftcard_settle returns, and how many were refused.
create function public.giftcard_settle_each(
  p_results jsonb, p_cooldown_seconds double precision, p_now timestamptz, out settled json, out opened text[],
  out closed text[], out sums jsonb, out refused integer)
language plpgsql volatile security invoker set search_path = '' set lock_timeout = '200ms' as $$
declare
  v_settled jsonb := '[]'::jsonb;
  v_result jsonb;
  v_error text;
  s record;
begin
  opened := '{}';
  closed := '{}';
  sums := '{"completed": 0, "lease_lost": 0}';
  for v_result in select value from jsonb_array_elements(p_results) order by (value ->> 'id')::bigint loop
    begin
      s := public.giftcard_settle(jsonb_build_array(v_result), p_cooldown_seconds, p_now, true);
      v_settled := v_settled || coalesce(s.settled::jsonb, '[]');
      opened := opened || s.opened;
      closed := closed || s.closed;
      sums := public.giftcard_add(sums, s.sums);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
        raise;
      end if;
      v_error := public.giftcard_error_text(sqlstate, sqlerrm);
      v_settled := v_settled || jsonb_build_object(
        'id', (v_result ->> 'id')::bigint, 'status', 'running', 'next_run_at', null, 'sqlstate', sqlstate,
        'error', v_error,
        'settled', case when not v_result ? 'last_resort' or sqlstate = '55P03' then 'refused'
                        when public.giftcard_put_aside(
                          (v_result ->> 'id')::bigint, v_error, coalesce(p_now, clock_timestamp()),
                          (v_result ->> 'lease_id')::uuid) then 'put_aside'
                        else 'skipped' end);
    end;
  end loop;
  settled := v_settled::json;
  refused := jsonb_array_length(jsonb_path_query_array(v_settled, '$[*] ? (@.settled == "refused")'));
end $$;

-- Add to the counts of a tick's row, as giftcard_advance_tick does; a row that refuses it is recorded, and stays.
create function public.giftcard_try_count_in_tick(p_tick_id bigint, p_sums jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_count_in_tick(p_tick_id, p_sums);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Revive one by one: a dead letter that cannot be revived is put aside; the others keep their places in the spread.
-- Return how many were revived.
create function public.giftcard_revive_each(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_count integer := 0;
  v_id bigint;
begin
  foreach v_id in array p_ids loop
    begin
      perform public.giftcard_revive_locked(array[v_id], p_ids, p_now);
      v_count := v_count + 1;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_put_aside(v_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
  return v_count;
end $$;
