-- Personal data: shown in clear only with a row in the audit, and erased on request.

-- Record that personal data was shown in clear, and why (null: unknown). p_tenant_id: the tenant whose data it is;
-- null: several.
create function public.giftcard_record_reveal(
  p_subject text, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(p_by, p_tenant_id, 'reveal', p_subject,
                                     jsonb_strip_nulls(jsonb_build_object('reason', p_reason)), p_now);
  return jsonb_build_object('noted', true);
end $$;

-- Return {id} of a customer: by external id, by one of their orders, or by the address of a customer without an
-- external id. GC404 for none.
create function public.giftcard_find_customer(
  p_tenant_id text, p_external_id text default null, p_email text default null,
  p_correlation_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_id bigint;
begin
  if p_external_id is not null then
    select id into v_id from public.giftcard_customers where tenant_id = p_tenant_id and external_id = p_external_id;
  elsif p_correlation_id is not null then
    -- A flow that began with a plain INSERT has no order: its jobs know the customer, here or in the archive.
    select coalesce(
      (select customer_id from public.giftcard_orders
       where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
      (select (context ->> 'customer_id')::bigint from public.giftcard_jobs
        where tenant_id = p_tenant_id and correlation_id = p_correlation_id
          and jsonb_typeof(context -> 'customer_id') = 'number' order by id limit 1),
      (select (job #>> '{context,customer_id}')::bigint from public.giftcard_jobs_archive
        where tenant_id = p_tenant_id and correlation_id = p_correlation_id
          and jsonb_typeof(job #> '{context,customer_id}') = 'number' order by id limit 1))
      into v_id;
  else
    select id into v_id from public.giftcard_customers
     where tenant_id = p_tenant_id and lower(email) = lower(p_email) collate "C" and external_id is null;
  end if;
  if v_id is null then
    perform public.giftcard_refuse('GC404', 'there is no such customer', case
      when p_external_id is not null then 'external_id' when p_correlation_id is not null then 'correlation_id'
      else 'email' end);
  end if;
  return jsonb_build_object('id', v_id);
end $$;

-- Return the flows of a customer: those of their orders and cards, and those whose jobs or follow-ups name them. Until
-- its customer_ingest has run, an order is found by its payload alone.
create function public.giftcard_flows_of(p_customer_id bigint, p_tenant_id text, p_external_id text, p_email text)
returns text[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select correlation_id from public.giftcard_orders where customer_id = p_customer_id
    union select o.correlation_id from public.giftcard_orders o
     where o.tenant_id = p_tenant_id
       and (o.details #>> '{customer,external_id}' = p_external_id
            or p_external_id is null and o.details #>> '{customer,external_id}' is null
               and lower(o.details #>> '{customer,email}') = lower(p_email))
    union select correlation_id from public.giftcard_cards where customer_id = p_customer_id
    union select j.correlation_id from public.giftcard_jobs j
     where j.tenant_id = p_tenant_id
       and (j.payload #>> '{customer,external_id}' = p_external_id
            or p_external_id is null and j.payload #>> '{customer,external_id}' is null
               and lower(j.payload #>> '{customer,email}') = lower(p_email))
    union select coalesce(b.follow_up ->> 'correlation_id', 'batch-' || b.id) from public.giftcard_batches b
     where b.tenant_id = p_tenant_id
       and (b.follow_up #>> '{payload,customer,external_id}' = p_external_id
            or p_external_id is null and b.follow_up #>> '{payload,customer,external_id}' is null
               and lower(b.follow_up #>> '{payload,customer,email}') = lower(p_email))
    union select a.correlation_id from public.giftcard_jobs_archive a
     where a.tenant_id = p_tenant_id
       and (a.job #>> '{payload,customer,external_id}' = p_external_id
            or p_external_id is null and a.job #>> '{payload,customer,external_id}' is null
               and lower(a.job #>> '{payload,customer,email}') = lower(p_email)));
end $$;

-- Erase payload, context, concurrency key and errors of some jobs (whose rows the caller holds) and of their flows'
-- archived jobs, of all their histories, the results of their mails, and the follow-ups of batches in these flows.
-- Return the ids of all these jobs.
create function public.giftcard_erase_jobs(p_ids bigint[], p_tenant_id text, p_flows text[], p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids bigint[];
begin
  update public.giftcard_jobs
     set payload = jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', payload -> 'amount')), context = '{}',
         last_error = case when last_error is null then null else 'erased' end,
         status = case when status in ('queued', 'error') then 'cancelled' else status end,
         concurrency_key = null, revive_at = null, finished_at = coalesce(finished_at, p_now), updated_at = p_now
   where id = any (p_ids);
  with gone as (
    update public.giftcard_jobs_archive
       set job = job || jsonb_build_object(
             'payload', jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', job #> '{payload,amount}')),
             'context', '{}'::jsonb, 'concurrency_key', null,
             'last_error', case when job ->> 'last_error' is null then null else 'erased' end,
             'status', case when job ->> 'status' = 'error' then 'cancelled' else job ->> 'status' end)
     where tenant_id = p_tenant_id and correlation_id = any (p_flows)
    returning id)
  select p_ids || coalesce(array_agg(id), '{}') into v_ids from gone;
  update public.giftcard_job_history set error = case when error is not null then 'erased' end, detail = null
   where job_id = any (v_ids) and (error is not null or detail is not null);
  update public.giftcard_batches set follow_up = null, error = null
   where tenant_id = p_tenant_id and coalesce(follow_up ->> 'correlation_id', 'batch-' || id) = any (p_flows);
  update public.giftcard_effects
     set result = case when result is null then null else '{"erased": true}'::jsonb end, note = null
   where tenant_id = p_tenant_id and correlation_id = any (p_flows)
     -- Those of charges and cards stay, for the books. Any other stage may have stored personal data.
     and stage not in ('payment', 'issue_card', 'block_card');
  return v_ids;
end $$;

-- Erase a person: names, address, external id and code of the customer; payload, context and errors of the jobs and
-- histories of their flows, also of those in the archive. Queued jobs and dead letters are cancelled. Payments, cards
-- and amounts stay, so that totals do. Return {customer_id, flows, jobs, mails: the vendor keys of their mails (an
-- outbox of files is named by them)}. GC409 while one of their jobs runs.
create function public.giftcard_erase_customer(
  p_customer_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_tenant text;
  v_external_id text;
  v_email text;
  v_flows text[];
  v_ids bigint[];
  v_mails jsonb;
begin
  select tenant_id, external_id, email into v_tenant, v_external_id, v_email
    from public.giftcard_customers
   where id = p_customer_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('customer %s does not exist', p_customer_id), 'customer_id');
  end if;
  v_flows := public.giftcard_flows_of(p_customer_id, v_tenant, v_external_id, v_email);
  v_ids := array(
    select id from public.giftcard_jobs
     where tenant_id = v_tenant and correlation_id = any (v_flows) order by id for update);
  if exists (select from public.giftcard_jobs where id = any (v_ids) and status = 'running') then
    perform public.giftcard_refuse(
      'GC409', format('a job of customer %s is running: try again in a minute', p_customer_id), 'customer_id');
  end if;
  v_mails := (select coalesce(jsonb_agg(vendor_key), '[]') from public.giftcard_effects
               where tenant_id = v_tenant and correlation_id = any (v_flows) and stage = 'email');
  v_ids := public.giftcard_erase_jobs(v_ids, v_tenant, v_flows, v_now);
  update public.giftcard_orders set details = '{}' where tenant_id = v_tenant and correlation_id = any (v_flows);
  update public.giftcard_customers
     set external_id = 'erased-' || id, email = 'erased-' || id || '@erased.invalid', given_name = '',
         family_name = null, personal_code = null, updated_at = v_now
   where id = p_customer_id;
  perform public.giftcard_record_act(
    p_by, v_tenant, 'erase_customer', 'customer ' || p_customer_id,
    jsonb_build_object('jobs', cardinality(v_ids), 'flows', cardinality(v_flows)), v_now);
  return jsonb_build_object(
    'customer_id', p_customer_id, 'flows', cardinality(v_flows), 'jobs', cardinality(v_ids), 'mails', v_mails);
end $$;
