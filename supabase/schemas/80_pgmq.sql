-- Inlets: messages that others put into queues of pgmq (Supabase Queues) become jobs.

-- The name that a message gives under a key: text of 1 to 200 characters, as the doors take it; null for anything else.
create function public.giftcard_message_field(p_message jsonb, p_key text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message -> p_key) = 'string' and p_message ->> p_key ~ '^[^[:cntrl:]]{1,200}$'
                   and p_message ->> p_key = btrim(p_message ->> p_key) then p_message ->> p_key end
$$;

-- Makes a job of one message: p_job is what the inlet says of it. The message's tenant_id, correlation_id and dedup_key are the job's, all
-- else is the payload. A message without a correlation id is a flow of its own, known by its queue, its number and when it was sent:
-- numbers begin anew when a queue is made anew. A message that cannot be a job is a dead letter, with its text. Answers moved, repeated
-- (the job was there already) or refused.
create function public.giftcard_import_pgmq_message(
  p_queue text, p_job jsonb, p_msg_id bigint, p_sent_at timestamptz, p_message jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_own_flow text := format('pgmq:%s:%s', p_queue, p_msg_id);
  v_sent text := extract(epoch from p_sent_at)::text;
  v_tenant text := public.giftcard_message_field(p_message, 'tenant_id');
  v_flow text := public.giftcard_message_field(p_message, 'correlation_id');
  v_dedup_key text := public.giftcard_message_field(p_message, 'dedup_key');
  v_names text[] := array_remove(array[case when v_tenant is not null then 'tenant_id' end, case when v_flow is not null then 'correlation_id' end,
                                       case when v_dedup_key is not null then 'dedup_key' end], null);
  v_job jsonb;
begin
  if jsonb_typeof(p_message) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'the message is no JSON object');
  end if;
  v_job := public.giftcard_enqueue(jsonb_build_array(p_job || jsonb_build_object(
    'tenant_id', v_tenant, 'correlation_id', coalesce(v_flow, v_own_flow),
    'dedup_key', coalesce(v_dedup_key, case when v_flow is null then v_sent end), 'trigger_type', 'pgmq', 'payload', p_message - v_names)),
    false, p_now) -> 0;
  return case when (v_job ->> 'created')::boolean then 'moved' else 'repeated' end;
-- What is wrong with the message itself, and nothing else: a database that is out of space refuses no message for good.
exception when data_exception or integrity_constraint_violation or program_limit_exceeded or sqlstate 'GC400' then
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, trigger_type, status, payload, last_error, scheduled_at, created_at, updated_at, finished_at)
  values (coalesce(v_tenant, 'default'), v_own_flow, p_job ->> 'stage', v_sent, 'pgmq', 'error',
          jsonb_build_object('message', left(p_message::text, 10000)), left('PermanentError: ' || sqlerrm, 500), v_now, v_now, v_now, v_now)
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  return 'refused';
end $$;

-- Moves up to p_limit messages of one queue: in this transaction they are archived there and jobs here, or neither. pgmq's read passes
-- by what another transaction is moving.
create function public.giftcard_import_pgmq_queue(p_queue text, p_job jsonb, p_limit integer, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_sums jsonb := '{"moved": 0, "repeated": 0, "refused": 0}';
  v_ids bigint[] := '{}';
  v_kind text;
  m record;
begin
  if to_regclass('pgmq.meta') is null then
    perform public.giftcard_refuse('GC404', 'there is no pgmq in this database: create extension pgmq, or take it out of GIFTCARD_PGMQ_QUEUES');
  elsif not exists (select from pgmq.meta where queue_name = p_queue) then
    perform public.giftcard_refuse('GC404', format('pgmq has no queue %s: select pgmq.create(%L) makes it', p_queue, p_queue));
  end if;
  for m in select r.msg_id, r.enqueued_at, r.message from pgmq.read(p_queue, 60, p_limit) r order by r.msg_id loop
    v_kind := public.giftcard_import_pgmq_message(p_queue, p_job, m.msg_id, m.enqueued_at, m.message, p_now);
    v_sums := v_sums || jsonb_build_object(v_kind, (v_sums ->> v_kind)::integer + 1);
    v_ids := v_ids || m.msg_id;
  end loop;
  if (select count(*) from pgmq.archive(p_queue, v_ids)) <> cardinality(v_ids) then
    perform public.giftcard_refuse('GC409', format('pgmq did not archive all messages of queue %s', p_queue));
  end if;
  return v_sums;
end $$;

-- Moves messages from queues of pgmq into jobs. p_queues: {"email_queue": {"stage": "email"}}: by queue what its jobs have in common, as
-- giftcard_enqueue takes it; p_limit: messages of each, at most 1,000 (0: only look whether it could). Answers, by queue, {moved, repeated,
-- refused}, with `problem` for one that could not be moved: then nothing of it was, and the others were all the same.
create function public.giftcard_import_pgmq(p_queues jsonb, p_limit integer, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_answer jsonb := '{}';
  i record;
begin
  if jsonb_typeof(p_queues) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'p_queues must be an object of queues and what their jobs have in common', 'p_queues');
  end if;
  for i in select e.key as queue, e.value as job from jsonb_each(p_queues) e order by e.key limit 100 loop
    begin
      v_answer := v_answer || jsonb_build_object(i.queue, public.giftcard_import_pgmq_queue(i.queue, i.job, least(greatest(p_limit, 0), 1000), p_now));
    exception when others then
      v_answer := v_answer || jsonb_build_object(i.queue, jsonb_build_object('moved', 0, 'repeated', 0, 'refused', 0, 'problem', sqlerrm));
    end;
  end loop;
  return v_answer;
end $$;
