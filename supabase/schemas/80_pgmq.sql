-- pgmq import: messages of pgmq queues (Supabase Queues) become jobs. A tick reads messages, prepares a job of each as
-- it prepares every job, and imports them. A message that was read and not imported is visible again after a minute.

-- Return the text under a key of a message if it can name something: 1 to 200 characters, no control characters, no
-- surrounding spaces; else null.
create function public.giftcard_message_field(p_message jsonb, p_key text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message -> p_key) = 'string' and p_message ->> p_key ~ '^[^[:cntrl:]]{1,200}$'
                   and p_message ->> p_key = btrim(p_message ->> p_key) then p_message ->> p_key end
$$;

-- Return the job of a message: {tenant_id, correlation_id, dedup_key, payload_json}, with `error` if it cannot be one.
-- tenant_id, correlation_id and dedup_key are those of the message; everything else is the payload. A message without a
-- correlation id is a flow of its own, named by its queue, its number and the time it was sent, because numbers start
-- again when a queue is created again. The payload is text: Python may not read every number that Postgres stores.
create function public.giftcard_message_job(p_queue text, p_msg_id bigint, p_sent_at timestamptz, p_message jsonb)
returns jsonb language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
           'tenant_id', m.tenant_id, 'correlation_id', coalesce(m.flow, format('pgmq:%s:%s', p_queue, p_msg_id)),
           'dedup_key', coalesce(m.dedup_key, case when m.flow is null then extract(epoch from p_sent_at)::text end),
           'payload_json', case when m.is_object then (p_message - array_remove(array[
               case when m.tenant_id is not null then 'tenant_id' end,
               case when m.flow is not null then 'correlation_id' end,
               case when m.dedup_key is not null then 'dedup_key' end], null))::text else p_message::text end)
         || case when m.is_object then '{}'::jsonb
                 else jsonb_build_object('error', 'the message is not a JSON object') end
    from (select public.giftcard_message_field(p_message, 'tenant_id') as tenant_id,
                 public.giftcard_message_field(p_message, 'correlation_id') as flow,
                 public.giftcard_message_field(p_message, 'dedup_key') as dedup_key,
                 coalesce(jsonb_typeof(p_message) = 'object', false) as is_object) m
$$;

-- Read up to p_limit messages of a queue, which no one else reads for a minute: in steps of 1, 2, 4 … 64, until they
-- come to 2 MB. `more`: there may be more. With a p_limit of 0, only check that they can be read and archived.
create function public.giftcard_read_pgmq_queue(p_queue text, p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_messages jsonb := '[]'::jsonb;
  v_bytes bigint := 0::bigint;
  v_step integer := 1;
  v_count integer := 0;
  v_read integer;
  r record;
begin
  if to_regclass('pgmq.meta') is null then
    perform public.giftcard_refuse('GC404',
      'there is no pgmq in this database: create extension pgmq, or remove the queue from GIFTCARD_PGMQ_QUEUES');
  elsif not exists (select from pgmq.meta where queue_name = p_queue) then
    perform public.giftcard_refuse('GC404',
      format('pgmq has no queue %s: create it with select pgmq.create(%L)', p_queue, p_queue));
  elsif p_limit <= 0 then
    perform pgmq.read(p_queue, 60, 0), pgmq.archive(p_queue, '{}'::bigint[]);
  end if;
  while v_count < p_limit and v_bytes < 2000000 loop
    v_read := 0;
    for r in select m.msg_id, m.enqueued_at, m.message
               from pgmq.read(p_queue, 60, least(v_step, p_limit - v_count)) m order by m.msg_id loop
      v_messages := v_messages || jsonb_build_object(
        'msg_id', r.msg_id, 'sent_at', extract(epoch from r.enqueued_at)::text,
        'job', public.giftcard_message_job(p_queue, r.msg_id, r.enqueued_at, r.message));
      v_bytes := v_bytes + coalesce(octet_length(r.message::text), 0);
      v_read := v_read + 1;
    end loop;
    v_count := v_count + v_read;
    exit when v_read < least(v_step, p_limit - v_count + v_read);
    v_step := least(2 * v_step, 64);
  end loop;
  return jsonb_build_object('messages', v_messages, 'more', v_count < p_limit and v_bytes >= 2000000);
end $$;

-- Read up to p_limit messages of each queue, at most 1,000 (0: only check). Return, by queue, {messages: [{msg_id,
-- sent_at, job}], more}, or {problem} for a queue that cannot be read; the others are read all the same.
create function public.giftcard_read_pgmq(p_queues text[], p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_read jsonb := '{}'::jsonb;
  v_queue text;
begin
  foreach v_queue in array p_queues loop
    begin
      v_read := v_read || jsonb_build_object(v_queue,
        public.giftcard_read_pgmq_queue(v_queue, least(greatest(p_limit, 0), 1000)));
    exception when others then
      v_read := v_read || jsonb_build_object(v_queue, jsonb_build_object('problem', sqlerrm));
    end;
  end loop;
  return v_read;
end $$;

-- Enqueue the job of one message. A message that cannot be a job becomes a dead letter, with its text. Return moved,
-- repeated (the job was there already) or refused. p_item: {msg_id, sent_at, job}; job as giftcard_enqueue takes it,
-- its payload as an object or, as it was read, in payload_json.
create function public.giftcard_import_pgmq_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_row jsonb := (p_item -> 'job') - '{payload_json,error}'::text[];
  v_payload text := p_item #>> '{job,payload_json}';
  v_job json;
begin
  if p_item -> 'job' ? 'error' then
    perform public.giftcard_refuse('GC400', p_item #>> '{job,error}');
  elsif not v_row ? 'payload' then
    v_row := v_row || jsonb_build_object('payload', v_payload::jsonb);
  end if;
  v_job := public.giftcard_enqueue(jsonb_build_array(v_row || '{"trigger_type": "pgmq"}'), false, p_now) -> 0;
  return case when (v_job ->> 'created')::boolean then 'moved' else 'repeated' end;
-- Only what is wrong with the message itself: a database that is out of space refuses no message for good.
exception when data_exception or integrity_constraint_violation or program_limit_exceeded or sqlstate 'GC400' then
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, trigger_type, status, payload, last_error, scheduled_at, created_at,
     updated_at, finished_at)
  values (coalesce(v_row ->> 'tenant_id', 'default'), format('pgmq:%s:%s', p_queue, p_item ->> 'msg_id'),
          v_row ->> 'stage', p_item ->> 'sent_at', 'pgmq', 'error',
          jsonb_build_object('message', left(v_payload, 10000)),
          left('PermanentError: ' || sqlerrm, 500), v_now, v_now, v_now, v_now)
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  return 'refused';
end $$;

-- Import what was read of a queue: in this transaction the messages are archived and their jobs enqueued, or neither.
-- A message that someone else has archived meanwhile is passed over.
create function public.giftcard_import_pgmq_queue(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_counts jsonb := '{"moved": 0, "repeated": 0, "refused": 0}'::jsonb;
  v_archived bigint[];
  v_outcome text;
  v_item jsonb;
begin
  v_archived := array(select pgmq.archive(p_queue, array(
    select (i ->> 'msg_id')::bigint from jsonb_array_elements(p_items) i)));
  for v_item in
    select i from jsonb_array_elements(p_items) with ordinality x(i, n)
     where (i ->> 'msg_id')::bigint = any (v_archived) order by n
  loop
    v_outcome := public.giftcard_import_pgmq_message(p_queue, v_item, p_now);
    v_counts := v_counts || jsonb_build_object(v_outcome, (v_counts ->> v_outcome)::integer + 1);
  end loop;
  return v_counts;
end $$;

-- Import messages that giftcard_read_pgmq returned: {queue: [{msg_id, sent_at, job}]}. Return, by queue, {moved,
-- repeated, refused}, with `problem` for a queue that failed: nothing of it was imported, and the others were.
create function public.giftcard_import_pgmq(p_batches jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_imported jsonb := '{}'::jsonb;
  b record;
begin
  if jsonb_typeof(p_batches) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'p_batches must be an object of queues and their messages', 'p_batches');
  end if;
  for b in select e.key as queue, e.value as items from jsonb_each(p_batches) e order by e.key limit 100 loop
    begin
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_import_pgmq_queue(b.queue, b.items, p_now));
    exception when others then
      v_imported := v_imported || jsonb_build_object(b.queue,
        jsonb_build_object('moved', 0, 'repeated', 0, 'refused', 0, 'problem', sqlerrm));
    end;
  end loop;
  return v_imported;
end $$;
