-- pgmq import, storing: each message that was read becomes a job, finds the job that it had become before, or is kept
-- as a dead letter. In one transaction it is archived (pgmq.a_<queue>, with its read count) and stored, or neither.

-- Return whether an error is the fault of the one message that caused it, also in triggers and indexes of the
-- database's owner: its content (classes 21, 22, 23, 54), or a refusal (raise: class P0, GC400). A database that is out
-- of space or lacks a privilege refuses no message for good.
create function public.giftcard_is_message_fault(p_sqlstate text) returns boolean
language sql immutable security invoker set search_path = '' as $$
  select left(p_sqlstate, 2) in ('21', '22', '23', '54', 'P0') or p_sqlstate = 'GC400'
$$;

-- Return where a job comes from, which its context keeps under `pgmq`: {queue, msg_id, sent_at, read_ct, content}.
-- `content`: the SHA-256 of the message's payload, by which the same message is recognized.
create function public.giftcard_message_source(p_queue text, p_item jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
    'queue', p_queue, 'msg_id', p_item -> 'msg_id', 'read_ct', p_item -> 'read_ct',
    'sent_at', to_timestamp((p_item ->> 'sent_at')::double precision),
    'content', encode(sha256(convert_to(coalesce(p_item #>> '{job,payload_json}', ''), 'UTF8')), 'hex'))
$$;

-- Return whether a job has the content of the message that would have become it (p_job): it came from the same content,
-- has the same payload, or its payload was erased.
create function public.giftcard_is_same_message(p_job_id bigint, p_job jsonb) returns boolean
language sql stable security invoker set search_path = '' as $$
  select coalesce((
    select j.trigger_type = 'pgmq' and j.context #>> '{pgmq,content}' = p_job #>> '{context,pgmq,content}'
           or j.payload = p_job -> 'payload' or j.payload @> '{"erased": true}'
      from public.giftcard_jobs j where j.id = p_job_id), false)
$$;

-- Keep a message as a dead letter, with up to 10,000 characters of its text and the reason. p_outcome: refused or
-- conflicts. Its flow is its own: the one that the message names stays free. Kept once, however often it is delivered.
-- The reason may repeat a value of the message: mail addresses and control characters are left out of it.
create function public.giftcard_keep_message(
  p_queue text, p_item jsonb, p_outcome text, p_reason text, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_source jsonb := public.giftcard_message_source(p_queue, p_item);
  v_reason text := left(regexp_replace(regexp_replace(left(p_reason, 2000), '[[:cntrl:]]+', ' ', 'g'),
                                       '[^[:space:]"''<>]+@[^[:space:]"''<>]+', '[email]', 'g'), 500);
begin
  perform set_config('giftcard.writer', 'pgmq', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, trigger_type, source, status, payload, context, last_error,
     scheduled_at, created_at, updated_at, finished_at)
  values (coalesce(p_item #>> '{job,tenant_id}', 'default'), format('pgmq:%s:%s', p_queue, p_item ->> 'msg_id'),
          p_item #>> '{job,stage}', format('%s:%s', p_item ->> 'sent_at', left(v_source ->> 'content', 16)), 'pgmq',
          'pgmq', 'error', jsonb_build_object('message', left(p_item #>> '{job,payload_json}', 10000)),
          jsonb_build_object('pgmq', v_source || jsonb_strip_nulls(jsonb_build_object(
            'outcome', p_outcome, 'correlation_id', p_item #> '{job,correlation_id}',
            'dedup_key', p_item #> '{job,dedup_key}'))),
          v_reason, v_now, v_now, v_now, v_now)
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  perform set_config('giftcard.writer', '', true);
  return p_outcome;
end $$;

-- Match a message that asks for the payment of an order ({reference, amount: {amount, currency}}) with that order. The
-- order's own flow charges, once; the message never does. Return repeated, or conflicts if it asks for another amount.
-- GC400 for an order that is unknown here.
create function public.giftcard_match_payment_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_tenant_id text := coalesce(p_item #>> '{job,tenant_id}', 'default');
  v_reference text := p_item #>> '{job,order,reference}';
  v_asked jsonb := p_item #> '{job,order,amount}';
  v_flow text;
  v_ordered jsonb;
begin
  -- A flow of the same queue comes first.
  foreach v_flow in array array[public.giftcard_message_flow(p_queue, v_reference), v_reference] loop
    select jsonb_build_object('amount', amount, 'currency', currency) into v_ordered
      from public.giftcard_orders where tenant_id = v_tenant_id and correlation_id = v_flow;
    if not found then
      -- A flow that began with a plain INSERT or with a message has no order: its payment job has the amount.
      select payload -> 'amount' into v_ordered from public.giftcard_jobs
       where tenant_id = v_tenant_id and correlation_id = v_flow and stage = p_item #>> '{job,stage}'
         and dedup_key = '';
    end if;
    exit when v_ordered is not null;
  end loop;
  if v_ordered is null then
    perform public.giftcard_refuse(
      'GC400', format('no order has the correlation id %s: nothing was charged', v_reference), 'reference');
  elsif v_ordered = v_asked then
    return 'repeated';
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'conflicts', format(
    'Conflict: the order %s is over %s %s, the message asks for %s %s: nothing was charged for it', v_reference,
    v_ordered ->> 'amount', v_ordered ->> 'currency', v_asked ->> 'amount', v_asked ->> 'currency'), p_now);
end $$;

-- Enqueue the job of one message. A message that cannot be a job becomes a dead letter. Return moved, repeated (its job
-- was there already), conflicts (that job has other content: the message is a dead letter) or refused.
-- p_item: {msg_id, sent_at, read_ct, job}; job as giftcard_enqueue takes it, its payload as an object or, as it was
-- read, in payload_json; with `order` for a payment, and with `error` for what cannot be a job.
create function public.giftcard_import_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_job jsonb := (p_item -> 'job') - '{payload_json,error,order}'::text[] 
                 || '{"trigger_type": "pgmq", "source": "pgmq"}';
  v_enqueued json;
begin
  if p_item -> 'job' ? 'error' then
    perform public.giftcard_refuse('GC400', p_item #>> '{job,error}');
  elsif p_item -> 'job' ? 'order' then
    return public.giftcard_match_payment_message(p_queue, p_item, p_now);
  elsif not v_job ? 'payload' then
    v_job := v_job || jsonb_build_object('payload', (p_item #>> '{job,payload_json}')::jsonb);
  end if;
  v_job := v_job || jsonb_build_object('context', coalesce(v_job -> 'context', '{}') || jsonb_build_object(
    'pgmq', public.giftcard_message_source(p_queue, p_item)));
  v_enqueued := public.giftcard_enqueue(jsonb_build_array(v_job), p_commits => true, p_now => p_now) -> 0;
  if (v_enqueued ->> 'created')::boolean then
    return 'moved';
  elsif public.giftcard_is_same_message((v_enqueued ->> 'id')::bigint, v_job) then
    return 'repeated';
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'conflicts', format(
    'Conflict: job %s has this tenant, correlation id, stage and dedup key, but another content',
    v_enqueued ->> 'id'), p_now);
exception when others then
  if not public.giftcard_is_message_fault(sqlstate) then
    raise;
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'refused', 'PermanentError: ' || sqlerrm, p_now);
end $$;

-- Return how many messages had each outcome: {moved, repeated, conflicts, refused}.
create function public.giftcard_count_imported(p_outcomes text[]) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select jsonb_build_object(
      'moved', count(*) filter (where o = 'moved'), 'repeated', count(*) filter (where o = 'repeated'),
      'conflicts', count(*) filter (where o = 'conflicts'), 'refused', count(*) filter (where o = 'refused'))
    from unnest(p_outcomes) o
$$;

-- Import messages one by one, because one of them can neither be archived nor stored as a dead letter: that one stays
-- in its queue and is named in `problem`. After ten reads it is hidden for an hour at a time, so that many of them do
-- not keep those behind them out of each read for ever.
create function public.giftcard_import_messages_singly(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_outcomes text[] := '{}'::text[];
  v_problems text[] := '{}'::text[];
  v_id bigint;
  v_item jsonb;
begin
  for v_item in select i from jsonb_array_elements(p_items) with ordinality x(i, n) order by n loop
    v_id := (v_item ->> 'msg_id')::bigint;
    begin
      if pgmq.archive(p_queue, v_id) then
        v_outcomes := v_outcomes || public.giftcard_import_message(p_queue, v_item, p_now);
      end if;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      v_problems := v_problems || format('message %s stays in the queue: %s', v_id, sqlerrm);
      if (v_item ->> 'read_ct')::integer >= 10 then
        perform pgmq.set_vt(p_queue, v_id, 3600);
      end if;
    end;
  end loop;
  return public.giftcard_count_imported(v_outcomes) || case when v_problems = '{}' then '{}'::jsonb else
    jsonb_build_object('problem', array_to_string(v_problems[:3], '; ') || case
      when cardinality(v_problems) > 3 then format('; and %s more', cardinality(v_problems) - 3) else '' end) end;
end $$;

-- Import what was read of a queue: in this transaction the messages are archived and their jobs enqueued, or neither.
-- In the order of the messages, not of keys: one may need the order that an earlier one begins.
-- A message that someone else has archived meanwhile is passed over.
create function public.giftcard_import_pgmq_queue(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_outcomes text[] := '{}'::text[];
  v_archived bigint[];
  v_item jsonb;
begin
  v_archived := array(select pgmq.archive(p_queue, array(
    select (i ->> 'msg_id')::bigint from jsonb_array_elements(p_items) i)));
  for v_item in
    select i from jsonb_array_elements(p_items) with ordinality x(i, n)
     where (i ->> 'msg_id')::bigint = any (v_archived) order by n
  loop
    v_outcomes := v_outcomes || public.giftcard_import_message(p_queue, v_item, p_now);
  end loop;
  return public.giftcard_count_imported(v_outcomes);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  return public.giftcard_import_messages_singly(p_queue, p_items, p_now);
end $$;

-- Import messages that giftcard_read_pgmq returned: {queue: [{msg_id, sent_at, read_ct, job}]}. Return, by queue,
-- {moved, repeated, conflicts, refused}, with `problem` for what stays in its queue. The other queues are imported.
create function public.giftcard_import_pgmq(p_batches jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_imported jsonb := '{}'::jsonb;
  b record;
begin
  if jsonb_typeof(p_batches) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'p_batches must be an object of queues and their messages', 'p_batches');
  end if;
  set constraints all immediate;  -- an error at the commit would be no message's
  for b in select e.key as queue, e.value as items from jsonb_each(p_batches) e order by e.key limit 100 loop
    begin
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_import_pgmq_queue(b.queue, b.items, p_now));
    exception when others then
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_count_imported('{}') || jsonb_build_object('problem', sqlerrm));
    end;
  end loop;
  return v_imported;
end $$;
