-- Webhooks: where tenants receive events, and the jobs that deliver them.

create table public.giftcard_webhook_endpoints (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  url text collate "C" not null,
  events text[] not null,
  enabled boolean not null default true,
  disabled_reason text,
  secret_encrypted text not null,
  previous_secret_encrypted text,
  previous_secret_until timestamptz,
  oldest_secret_encrypted text,
  oldest_secret_until timestamptz,
  create_key text collate "C",
  create_hash text,
  rotate_key text collate "C",
  rotate_hash text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint giftcard_webhook_endpoints_pkey primary key (id),
  constraint giftcard_webhook_endpoints_url_key unique (tenant_id, url),
  constraint giftcard_webhook_endpoints_create_key_key unique (tenant_id, create_key),
  constraint giftcard_webhook_endpoints_events_are_known check (cardinality(events) > 0 and events <@ array[
    'giftcard.issued', 'giftcard.delivered', 'giftcard.failed', 'job.completed', 'job.dead_lettered', 'report.ready']),
  constraint giftcard_webhook_endpoints_disabled_has_a_reason check (enabled = (disabled_reason is null))
);
-- Read by each settle: empty where no tenant receives events.
create index giftcard_webhook_endpoints_enabled on public.giftcard_webhook_endpoints (tenant_id, id) where enabled;

comment on table public.giftcard_webhook_endpoints is
  'An address that receives events of a tenant. Its secrets are encrypted for its id: only the application can '
  'read what signs the requests.';
comment on column public.giftcard_webhook_endpoints.previous_secret_encrypted is
  'Signs beside the new one until previous_secret_until, so that the receiver has time to change over.';
comment on column public.giftcard_webhook_endpoints.oldest_secret_encrypted is
  'The secret before a rotation within that time. It signs too, until oldest_secret_until: the receiver may have seen '
  'none of the later ones.';
comment on column public.giftcard_webhook_endpoints.create_key is
  'The Idempotency-Key of the request that created it, and the hash of that request; rotate_key, rotate_hash: of the '
  'latest rotation.';

-- Return the events of jobs that have just ended: {tenant_id, correlation_id, event, event_id, body, trace}, at most
-- 3,000. The same fact always has the same event id; a card is issued and delivered once, however many jobs do it and
-- however often they run.
-- Only ids, amounts and last four digits.
create function public.giftcard_events_for(p_ids bigint[], p_now timestamptz)
returns table (tenant_id text, correlation_id text, event text, event_id text, body text, trace jsonb)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select coalesce(t.tenant_id, j.tenant_id), j.correlation_id, t.event,
         'msg_' || left(encode(sha256(convert_to(case
           when t.card_id is not null then jsonb_build_array(j.tenant_id, j.correlation_id, t.event, t.card_id)
           else jsonb_build_array(j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.created_at, t.event, t.run_no)
           end::text, 'UTF8')), 'hex'), 32),
         json_build_object('type', t.event,
                           'timestamp', to_char(p_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                           'data', t.data)::text,
         j.context -> 'trace'
    from public.giftcard_jobs j
    cross join lateral (
      select case j.stage when 'issue_card' then 'giftcard.issued' else 'giftcard.delivered' end as event,
             null::integer as run_no, c.id as card_id,
             null::text as tenant_id, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'card_id', c.id, 'last4', c.last4,
               'amount', c.amount,
               'currency', c.currency) as data
        from public.giftcard_cards c
       where j.stage in ('issue_card', 'email') and j.status = 'completed'
         and not public.giftcard_is_resend(j.dedup_key)
         and c.tenant_id = j.tenant_id and c.correlation_id = j.correlation_id
      union all
      select 'giftcard.failed', j.run_no, null, null, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'amount', o.amount, 'currency', o.currency, 'paid', exists (
                 select from public.giftcard_payments p
                   where p.tenant_id = j.tenant_id and p.correlation_id = j.correlation_id),
               'reason', public.giftcard_error_reason(j.last_error), 'revive_at', j.revive_at)
        from (select) one
        left join public.giftcard_orders o on o.tenant_id = j.tenant_id and o.correlation_id = j.correlation_id
       where (j.stage in ('customer_ingest', 'personal_code', 'payment', 'issue_card', 'email')
              -- A step that is not built in, ahead of the mail.
              or j.context @? '$.order_flow.before ? (@ != null)' and j.context #>> '{order_flow,step}' = j.stage)
         and j.status = 'error'
         and (j.payload -> 'without_order') is distinct from 'true'
      union all
      select case j.status when 'completed' then 'job.completed' else 'job.dead_lettered' end, j.run_no, null, null,
             json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'run_no', j.run_no,
               'attempts', j.attempts, 'reason', case when j.status = 'error'
                                                      then public.giftcard_error_reason(j.last_error) end,
               'revive_at', j.revive_at)
      union all
      select 'report.ready', j.run_no, null, r.tenant_id, json_build_object(
               'tenant_id', r.tenant_id, 'day', r.day, 'made_at', r.made_at, 'totals', r.report -> 'totals')
        from public.giftcard_reports r
       where j.stage = 'report' and j.status = 'completed'
         and r.tenant_id = coalesce(j.payload ->> 'tenant_id', j.tenant_id) and r.day::text = j.context ->> 'day') t
   where j.id = any (p_ids) and j.status in ('completed', 'error') and j.stage <> 'webhook'
     -- A key that is too long for an index is no reason for a settle to fail.
     and octet_length(j.tenant_id) + octet_length(j.correlation_id) < 2000
   order by j.id, t.event limit 3000
$$;

-- Enqueue the webhooks of jobs that have just been settled: in the same transaction, so that there is no event without
-- its fact and no fact without its event. p_endpoint_id: only those to this endpoint; null: to all.
create function public.giftcard_enqueue_webhooks(
  p_ids bigint[], p_now timestamptz, p_endpoint_id bigint default null) returns void
language sql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select set_config('giftcard.writer', 'webhook', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, scheduled_at,
     created_at, updated_at)
  select e.tenant_id, m.correlation_id, 'webhook', m.event_id || ':' || e.id, 'webhook:' || e.id, 'event', 'app',
         jsonb_build_object('endpoint_id', e.id, 'event_id', m.event_id, 'body', m.body),
         case when m.trace is null then '{}' else jsonb_build_object('trace', m.trace) end, p_now, p_now, p_now
    from public.giftcard_events_for(p_ids, p_now) m
    join public.giftcard_webhook_endpoints e on e.tenant_id = m.tenant_id and e.enabled and m.event = any (e.events)
   where p_endpoint_id is null or e.id = p_endpoint_id
   order by m.correlation_id, m.event, e.id
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  select set_config('giftcard.writer', '', true);
$$;

-- Refuse a webhook job that someone else enqueues: it would be signed as an event, whatever its body. A restored one
-- was enqueued here before.
create function public.giftcard_refuse_webhook() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_refuse('GC400', 'webhooks are enqueued by the database, when a job ends', 'stage');
  return null;
end $$;

create trigger giftcard_jobs_refuse_webhook before insert on public.giftcard_jobs
  for each row when (new.stage = 'webhook'
    and coalesce(current_setting('giftcard.writer', true), '') not in ('webhook', 'restore'))
  execute function public.giftcard_refuse_webhook();
create trigger giftcard_jobs_refuse_new_webhook after update of stage on public.giftcard_jobs
  for each row when (new.stage = 'webhook' and old.stage <> 'webhook')
  execute function public.giftcard_refuse_webhook();

-- Return what a delivery needs: {url, secrets (encrypted; the newest first), at: the database's time in seconds}. null:
-- the endpoint is disabled or deleted; then a cancel of the job is recorded, which its run ends with. GC410 when the
-- lease is not the job's current one.
create function public.giftcard_webhook_target(
  p_job_id bigint, p_lease_id uuid, p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_tenant text;
  e public.giftcard_webhook_endpoints;
begin
  select tenant_id into v_tenant from public.giftcard_jobs
    where id = p_job_id and status = 'running' and lease_id = p_lease_id;
  if not found then
    perform public.giftcard_refuse(
      'GC410', format('job %s is not run under this lease now', p_job_id), 'lease_id');
  end if;
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id and tenant_id = v_tenant and enabled;
  if not found then
    update public.giftcard_jobs set cancel_requested_at = v_now
      where id = p_job_id and status = 'running' and lease_id = p_lease_id;
    return null;
  end if;
  return jsonb_build_object('url', e.url, 'at', extract(epoch from v_now), 'secrets', to_jsonb(array_remove(array[
    e.secret_encrypted, case when e.previous_secret_until > v_now then e.previous_secret_encrypted end,
    case when e.oldest_secret_until > v_now then e.oldest_secret_encrypted end], null)));
end $$;

-- Disable an endpoint whose receiver refuses events for good, unless its address has changed meanwhile. Return {id,
-- disabled}.
create function public.giftcard_disable_webhook_endpoint(
  p_endpoint_id bigint, p_url text, p_reason text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_webhook_endpoints set enabled = false, disabled_reason = p_reason,
    updated_at = coalesce(p_now, clock_timestamp())
   where id = p_endpoint_id and url = p_url and enabled;
  return jsonb_build_object('id', p_endpoint_id, 'disabled', found);
end $$;
