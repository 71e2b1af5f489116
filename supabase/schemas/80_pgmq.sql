-- pgmq import, reading: messages of pgmq queues (Supabase Queues) become jobs. A tick reads messages, prepares a job of
-- each as it prepares every job, and imports them (82_pgmq_import.sql). A message that was read and not imported is
-- visible again after a minute.

-- Return the text under a key of a message if it can name something: 1 to 200 characters, no control characters, no
-- surrounding spaces; else null.
create function public.giftcard_message_field(p_message jsonb, p_key text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message -> p_key) = 'string' and p_message ->> p_key ~ '^[^[:cntrl:]]{1,200}$'
                   and p_message ->> p_key = btrim(p_message ->> p_key) then p_message ->> p_key end
$$;

-- Return why a message cannot be a job at all, by the limits of the API's requests; null: it can. p_text: the message
-- as text.
create function public.giftcard_message_error(p_message jsonb, p_text text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message) is distinct from 'object' then 'the message is not a JSON object'
              when octet_length(p_text) > 262144 then 'the message is too large: 256 KiB are allowed'
              when p_message @? '$.**{100}' then 'the message is nested too deeply: 100 levels are allowed' end
$$;

-- Return the correlation id of the jobs of a message with this one; null for none.
create function public.giftcard_message_flow(p_queue text, p_correlation_id text) returns text
language sql immutable security invoker set search_path = '' as $$
  select 'pgmq:' || p_queue || ':flow:' || p_correlation_id
$$;

-- Return the job of a message: {tenant_id, correlation_id, dedup_key, payload_json}, with `error` if it cannot be one:
-- payload_json is then the first 10,000 characters of its text.
-- tenant_id and dedup_key are those of the message; everything else is the payload. Its flow is named by its queue and
-- its correlation id: a message can join no flow, and use no effect, that another source has begun or will begin. A
-- message without a correlation id is a flow of its own, named by its queue, its number and the time it was sent,
-- because numbers start again when a queue is created again. The payload is text: Python may not read every number that
-- Postgres stores.
create function public.giftcard_message_job(p_queue text, p_msg_id bigint, p_sent_at timestamptz, p_message jsonb)
returns jsonb language plpgsql stable security invoker set search_path = '' as $$
declare
  v_tenant_id text := public.giftcard_message_field(p_message, 'tenant_id');
  v_flow text := public.giftcard_message_field(p_message, 'correlation_id');
  v_dedup_key text := public.giftcard_message_field(p_message, 'dedup_key');
  v_text text := p_message::text;
  v_name text := public.giftcard_message_flow(p_queue, v_flow);
  v_error text := coalesce(
    public.giftcard_message_error(p_message, v_text),
    case when char_length(v_name) > 200
         then format('correlation_id is too long: in this queue, %s characters are allowed',
                     200 - char_length(public.giftcard_message_flow(p_queue, ''))) end);
  v_job jsonb := jsonb_build_object(
    'tenant_id', v_tenant_id, 'correlation_id', coalesce(v_name, format('pgmq:%s:%s', p_queue, p_msg_id)),
    'dedup_key', coalesce(v_dedup_key, case when v_flow is null then extract(epoch from p_sent_at)::text end));
begin
  if v_error is not null then
    return v_job || jsonb_build_object('error', v_error, 'payload_json', left(v_text, 10000));
  elsif v_tenant_id is not null or v_flow is not null or v_dedup_key is not null then
    v_text := (p_message - array_remove(array[case when v_tenant_id is not null then 'tenant_id' end,
                                              case when v_flow is not null then 'correlation_id' end,
                                              case when v_dedup_key is not null then 'dedup_key' end], null))::text;
  end if;
  return v_job || jsonb_build_object('payload_json', v_text);
end $$;

-- Return which of Supabase's web roles, and whether every role (public), may write messages into a queue: by a grant on
-- its table that no row level security takes back. The functions of pgmq_public run with the rights of their caller.
create function public.giftcard_pgmq_writers(p_queue text) returns text[]
language sql stable security invoker set search_path = '' as $$
  select coalesce(array_agg(r.name order by r.name), '{}')
    from (select 'public' as name union all
          select rolname::text from pg_roles where rolname in ('anon', 'authenticated')) r
    join pg_class c on c.oid = to_regclass(format('pgmq.%I', lower('q_' || p_queue)))
   where has_schema_privilege(r.name, c.relnamespace, 'usage') and has_table_privilege(r.name, c.oid, 'insert')
     and (not c.relrowsecurity or exists (
       select from pg_policy p left join pg_roles o on o.oid = any (p.polroles)
        where p.polrelid = c.oid and p.polcmd in ('a', '*') and (0::oid = any (p.polroles) or o.rolname = r.name)))
$$;

-- Check that messages of a queue can be read and archived. Return {refused, conflicts}: its messages that are dead
-- letters now (up to 1,000 by stage); {unimportable}: those among its first 1,000 that ten reads did not import; and
-- {writers}, as giftcard_pgmq_writers does.
create function public.giftcard_check_pgmq_queue(p_queue text) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_unimportable integer;
begin
  perform pgmq.read(p_queue, 60, 0), pgmq.archive(p_queue, '{}'::bigint[]);
  execute format('select count(*) from (select read_ct from pgmq.%I order by msg_id limit 1000) m where read_ct >= 10',
                 lower('q_' || p_queue)) into v_unimportable;
  return (
    select jsonb_build_object(
        'unimportable', v_unimportable, 'writers', to_jsonb(public.giftcard_pgmq_writers(p_queue)),
        'refused', count(*) filter (where d.pgmq ->> 'outcome' = 'refused'),
        'conflicts', count(*) filter (where d.pgmq ->> 'outcome' = 'conflicts'))
      from public.giftcard_dead_stages() s cross join lateral (
        select j.context -> 'pgmq' as pgmq, j.trigger_type from public.giftcard_jobs j
         where j.status = 'error' and j.stage = s.stage order by j.finished_at desc limit 1000) d
     where d.trigger_type = 'pgmq' and d.pgmq ->> 'queue' = p_queue);
end $$;

-- Read up to p_limit messages of a queue, which no one else reads for a minute: in steps of 1, 2, 4 … 64, until they
-- come to 2 MB. `more`: there may be more. With a p_limit of 0, only check the queue: giftcard_check_pgmq_queue.
create function public.giftcard_read_pgmq_queue(p_queue text, p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_messages jsonb[] := '{}'::jsonb[];
  v_bytes bigint := 0::bigint;
  v_step integer := 1;
  v_count bigint := 0::bigint;
  v_wanted bigint;
  r record;
begin
  if to_regclass('pgmq.meta') is null then
    perform public.giftcard_refuse('GC404',
      'there is no pgmq in this database: create extension pgmq, or remove the queue from GIFTCARD_PGMQ_QUEUES');
  elsif not exists (select from pgmq.meta where queue_name = p_queue) then
    perform public.giftcard_refuse('GC404',
      format('pgmq has no queue %s: create it with select pgmq.create(%L)', p_queue, p_queue));
  elsif p_limit <= 0 then
    return jsonb_build_object('messages', '[]'::jsonb, 'more', false) || public.giftcard_check_pgmq_queue(p_queue);
  end if;
  while v_count < p_limit and v_bytes < 2000000 loop
    v_wanted := least(v_step, p_limit - v_count);
    select count(*) as messages, array_agg(j.item order by j.msg_id) as items,
           coalesce(sum(octet_length(j.item #>> '{job,payload_json}')), 0) as bytes into r
      from (select m.msg_id, jsonb_build_object(
                     'msg_id', m.msg_id, 'sent_at', extract(epoch from m.enqueued_at)::text, 'read_ct', m.read_ct,
                     'job', public.giftcard_message_job(p_queue, m.msg_id, m.enqueued_at, m.message)) as item
              from pgmq.read(p_queue, 60, v_wanted::integer) m) j;
    v_messages := v_messages || r.items;
    v_bytes := v_bytes + r.bytes;
    v_count := v_count + r.messages;
    exit when r.messages < v_wanted;
    v_step := least(2 * v_step, 64);
  end loop;
  return jsonb_build_object('messages', to_jsonb(v_messages), 'more', v_count < p_limit and v_bytes >= 2000000);
end $$;

-- Read up to p_limit messages of each queue, at most 1,000 (0: only check). Return, by queue, {messages: [{msg_id,
-- sent_at, read_ct, job}], more}, or {problem} for a queue that cannot be read; the others are read all the same.
-- Nothing is read, and {} returned, while everything is paused, and for an execution id whose tick is live or has ended
-- well: a second delivery.
create function public.giftcard_read_pgmq(
  p_queues text[], p_limit integer, p_execution_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_read jsonb := '{}'::jsonb;
  v_queue text;
begin
  if p_limit > 0 and (
       exists (select from public.giftcard_stages where stage = '*' and paused_at is not null)
       or p_execution_id is not null
          and public.giftcard_is_duplicate(p_execution_id, coalesce(p_now, clock_timestamp()))) then
    return v_read;
  end if;
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
