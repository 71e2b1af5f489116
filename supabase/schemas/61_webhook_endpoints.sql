-- Manage webhook endpoints: the operators' actions.

-- Return an endpoint as the API shows it: never with its secrets.
create function public.giftcard_webhook_endpoint_json(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object('id', e.id, 'tenant_id', e.tenant_id, 'url', e.url,
    -- The constraint lets an event twice and arrays of arrays pass.
    'events', (select jsonb_agg(d.event order by d.n) from (
        select u.event, min(u.n) as n from unnest(e.events) with ordinality u(event, n) group by u.event) d),
    'enabled', e.enabled, 'disabled_reason', left(e.disabled_reason, 500),
    'previous_secret_until', case when e.previous_secret_until > p_now then e.previous_secret_until end,
    'created_at', e.created_at, 'updated_at', e.updated_at);
end $$;

-- Return an endpoint with its secret, encrypted: for the responses to its creation and to a rotation.
create function public.giftcard_webhook_endpoint_with_secret(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_webhook_endpoint_json(e, p_now)
         || jsonb_build_object('secret_encrypted', e.secret_encrypted);
end $$;

-- Return whether a request repeats the one with the key p_known. GC422 if only the key is the same.
create function public.giftcard_is_repeated(p_key text, p_hash text, p_known text, p_known_hash text) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  if p_key = p_known and p_hash is distinct from p_known_hash then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another request', 'Idempotency-Key');
  end if;
  return coalesce(p_key = p_known, false);
end $$;

-- Lock an endpoint and return it. GC404 for none.
create function public.giftcard_lock_webhook_endpoint(
  p_endpoint_id bigint, p_tenant_id text) returns public.giftcard_webhook_endpoints
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints
   where id = p_endpoint_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return e;
end $$;

-- Record an act on an endpoint. Its address may hold a secret: the audit leaves it out.
create function public.giftcard_record_endpoint(
  e public.giftcard_webhook_endpoints, p_by text, p_action text, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(p_by, e.tenant_id, p_action, 'webhook endpoint ' || e.id, p_details, p_now);
end $$;

-- Refuse an address that another endpoint of the tenant has: each event would arrive there twice.
create function public.giftcard_refuse_duplicate_endpoint(
  p_tenant_id text, p_url text, p_except bigint default null) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_id bigint := (select id from public.giftcard_webhook_endpoints
                  where tenant_id = p_tenant_id and url = p_url and id is distinct from p_except);
begin
  if v_id is not null then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s of this tenant has this address already', v_id), 'url');
  end if;
end $$;

-- Return {id}, the id for a new endpoint: its secret is encrypted for this id before the endpoint is created.
create function public.giftcard_next_webhook_endpoint_id() returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', nextval(pg_get_serial_sequence('public.giftcard_webhook_endpoints', 'id')));
end $$;

-- Create an endpoint and return it with its secret, encrypted. p_endpoint_id: from giftcard_next_webhook_endpoint_id;
-- null: the next. The same idempotency key with the same request returns the endpoint that it created, with its present
-- secret. A tenant has at most 20, because each event is a job for each of them; the lock makes two that create for one
-- tenant take turns.
create function public.giftcard_create_webhook_endpoint(
  p_tenant_id text, p_url text, p_events text[], p_enabled boolean, p_secret_encrypted text,
  p_idempotency_key text default null, p_body_hash text default null, p_endpoint_id bigint default null,
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints;
begin
  perform pg_advisory_xact_lock(hashtextextended('webhook endpoints of ' || p_tenant_id, 0));
  select * into e from public.giftcard_webhook_endpoints
   where tenant_id = p_tenant_id and create_key = p_idempotency_key;
  if public.giftcard_is_repeated(p_idempotency_key, p_body_hash, e.create_key, e.create_hash) then
    return public.giftcard_webhook_endpoint_with_secret(e, v_now);
  end if;
  perform public.giftcard_refuse_duplicate_endpoint(p_tenant_id, p_url);
  if (select count(*) from public.giftcard_webhook_endpoints where tenant_id = p_tenant_id) >= 20 then
    perform public.giftcard_refuse('GC409', 'this tenant has 20 webhook endpoints, which is the most', 'tenant_id');
  end if;
  insert into public.giftcard_webhook_endpoints (id, tenant_id, url, events, enabled, disabled_reason,
                                                 secret_encrypted, create_key, create_hash, created_at, updated_at)
  overriding system value
  values (coalesce(p_endpoint_id, (public.giftcard_next_webhook_endpoint_id() ->> 'id')::bigint), p_tenant_id, p_url,
          p_events, p_enabled, case when not p_enabled then 'made off' end, p_secret_encrypted, p_idempotency_key,
          p_body_hash, v_now, v_now)
  returning * into e;
  perform public.giftcard_record_endpoint(e, p_by, 'create_endpoint', jsonb_build_object('events', e.events), v_now);
  return public.giftcard_webhook_endpoint_with_secret(e, v_now);
end $$;

-- Update what is given: another address, other events, enabled or not. Queued webhooks use the new values.
create function public.giftcard_update_webhook_endpoint(
  p_endpoint_id bigint, p_url text default null, p_events text[] default null, p_enabled boolean default null,
  p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
  v_changed jsonb;
  u public.giftcard_webhook_endpoints;
begin
  perform public.giftcard_refuse_duplicate_endpoint(e.tenant_id, p_url, e.id);
  update public.giftcard_webhook_endpoints
     set url = coalesce(p_url, url), events = coalesce(p_events, events), enabled = coalesce(p_enabled, enabled),
         disabled_reason = case when coalesce(p_enabled, enabled) then null
                                else coalesce(disabled_reason, 'turned off by hand') end, updated_at = v_now
   where id = p_endpoint_id returning * into u;
  v_changed := jsonb_build_object('changed', public.giftcard_changed_fields(to_jsonb(e), to_jsonb(u)) - 'updated_at');
  if v_changed <> '{"changed": []}' then
    perform public.giftcard_record_endpoint(e, p_by, 'update_endpoint', v_changed, v_now);
  end if;
  return public.giftcard_webhook_endpoint_json(u, v_now);
end $$;

-- Delete an endpoint for good. Its queued webhooks are cancelled when they run.
create function public.giftcard_delete_webhook_endpoint(
  p_endpoint_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
begin
  delete from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  perform public.giftcard_record_endpoint(e, p_by, 'delete_endpoint', '{}', p_now);
  return jsonb_build_object('id', p_endpoint_id, 'deleted', true);
end $$;

-- Replace an endpoint's secret and return the endpoint with the new one, encrypted. The previous one signs too for
-- p_former_seconds, so that the receiver can change over; 0: no former one signs any longer. Within that time of an
-- earlier rotation, the secret before it goes on signing until its time, too: of the later ones the receiver may not
-- know. The idempotency key of the latest rotation with the same request returns the same secret again.
create function public.giftcard_rotate_webhook_secret(
  p_endpoint_id bigint, p_secret_encrypted text, p_former_seconds double precision,
  p_idempotency_key text default null, p_body_hash text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
begin
  if public.giftcard_is_repeated(p_idempotency_key, p_body_hash, e.rotate_key, e.rotate_hash) then
    return public.giftcard_webhook_endpoint_with_secret(e, v_now);
  end if;
  if p_former_seconds > 0 then
    if e.previous_secret_until > v_now and coalesce(e.oldest_secret_until <= v_now, true) then
      e.oldest_secret_encrypted := e.previous_secret_encrypted;
      e.oldest_secret_until := e.previous_secret_until;
    end if;
    e.previous_secret_encrypted := e.secret_encrypted;
    e.previous_secret_until := v_now + make_interval(secs => p_former_seconds);
  else
    e.previous_secret_encrypted := null;
    e.previous_secret_until := null;
    e.oldest_secret_encrypted := null;
    e.oldest_secret_until := null;
  end if;
  update public.giftcard_webhook_endpoints
     set secret_encrypted = p_secret_encrypted, previous_secret_encrypted = e.previous_secret_encrypted,
         previous_secret_until = e.previous_secret_until, oldest_secret_encrypted = e.oldest_secret_encrypted,
         oldest_secret_until = e.oldest_secret_until, rotate_key = p_idempotency_key, rotate_hash = p_body_hash,
         updated_at = v_now
   where id = p_endpoint_id returning * into e;
  perform public.giftcard_record_endpoint(
    e, p_by, 'rotate_secret', jsonb_build_object('former_seconds', p_former_seconds), v_now);
  return public.giftcard_webhook_endpoint_with_secret(e, v_now);
end $$;

-- Send a test event, whatever events the endpoint receives; each call is a new event. Return {job_id, event_id}. GC409
-- for a disabled endpoint.
create function public.giftcard_test_webhook_endpoint(
  p_endpoint_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_event_id text := 'msg_' || replace(gen_random_uuid()::text, '-', '');
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
  v_job_id bigint;
begin
  if not e.enabled then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s is off (%s): turn it on first', p_endpoint_id, e.disabled_reason),
      'enabled');
  end if;
  perform set_config('giftcard.writer', 'webhook', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, scheduled_at, created_at,
     updated_at)
  values (e.tenant_id, 'webhook-endpoint:' || e.id, 'webhook', v_event_id || ':' || e.id, 'webhook:' || e.id, 'test',
          'app', jsonb_build_object('endpoint_id', e.id, 'event_id', v_event_id, 'body', json_build_object(
            'type', 'webhook.test', 'timestamp', to_char(v_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'data', json_build_object('tenant_id', e.tenant_id, 'endpoint_id', e.id))::text), v_now, v_now, v_now)
  returning id into v_job_id;
  perform set_config('giftcard.writer', '', true);
  perform public.giftcard_record_endpoint(
    e, p_by, 'test_endpoint', jsonb_build_object('job_id', v_job_id), v_now);
  return jsonb_build_object('job_id', v_job_id, 'event_id', v_event_id);
end $$;
