-- Manage webhook endpoints: the operators' actions.

-- Return an endpoint as the API shows it: never with its secrets.
create function public.giftcard_webhook_endpoint_json(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
    'id', e.id, 'tenant_id', e.tenant_id, 'url', e.url, 'events', to_jsonb(e.events), 'enabled', e.enabled,
    'disabled_reason', e.disabled_reason,
    'previous_secret_until', case when e.previous_secret_until > p_now then e.previous_secret_until end,
    'created_at', e.created_at, 'updated_at', e.updated_at)
$$;

-- Lock an endpoint and return it. GC404 for none.
create function public.giftcard_lock_webhook_endpoint(p_endpoint_id bigint) returns public.giftcard_webhook_endpoints
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return e;
end $$;

-- Refuse an address that another endpoint of the tenant has: each event would arrive there twice.
create function public.giftcard_refuse_duplicate_endpoint(
  p_tenant_id text, p_url text, p_except bigint default null) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_id bigint := (select id from public.giftcard_webhook_endpoints
                  where tenant_id = p_tenant_id and url = p_url and id is distinct from p_except);
begin
  if v_id is not null then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s of this tenant has this address already', v_id), 'url');
  end if;
end $$;

-- Create an endpoint. A tenant has at most 20, because each event is a job for each of them; the lock makes two that
-- create for one tenant take turns.
create function public.giftcard_create_webhook_endpoint(
  p_tenant_id text, p_url text, p_events text[], p_enabled boolean, p_secret_encrypted text,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints;
begin
  perform pg_advisory_xact_lock(hashtextextended('webhook endpoints of ' || p_tenant_id, 0));
  perform public.giftcard_refuse_duplicate_endpoint(p_tenant_id, p_url);
  if (select count(*) from public.giftcard_webhook_endpoints where tenant_id = p_tenant_id) >= 20 then
    perform public.giftcard_refuse('GC409', 'this tenant has 20 webhook endpoints, which is the most', 'tenant_id');
  end if;
  insert into public.giftcard_webhook_endpoints (tenant_id, url, events, enabled, disabled_reason, secret_encrypted,
                                                 created_at, updated_at)
  values (p_tenant_id, p_url, p_events, p_enabled, case when not p_enabled then 'made off' end, p_secret_encrypted,
          v_now, v_now)
  returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Update what is given: another address, other events, enabled or not. Queued webhooks use the new values.
create function public.giftcard_update_webhook_endpoint(
  p_endpoint_id bigint, p_url text default null, p_events text[] default null, p_enabled boolean default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
begin
  perform public.giftcard_refuse_duplicate_endpoint(e.tenant_id, p_url, e.id);
  update public.giftcard_webhook_endpoints
     set url = coalesce(p_url, url), events = coalesce(p_events, events), enabled = coalesce(p_enabled, enabled),
         disabled_reason = case when coalesce(p_enabled, enabled) then null
                                else coalesce(disabled_reason, 'turned off by hand') end, updated_at = v_now
   where id = p_endpoint_id returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Delete an endpoint for good. Its queued webhooks are cancelled when they run.
create function public.giftcard_delete_webhook_endpoint(p_endpoint_id bigint) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  perform public.giftcard_lock_webhook_endpoint(p_endpoint_id);
  delete from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  return jsonb_build_object('id', p_endpoint_id, 'deleted', true);
end $$;

-- Replace an endpoint's secret. The previous one signs too for p_former_seconds, so that the receiver can change over.
create function public.giftcard_rotate_webhook_secret(
  p_endpoint_id bigint, p_secret_encrypted text, p_former_seconds double precision,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
begin
  update public.giftcard_webhook_endpoints
     set secret_encrypted = p_secret_encrypted,
         previous_secret_encrypted = case when p_former_seconds > 0 then secret_encrypted end,
         previous_secret_until = case when p_former_seconds > 0 then v_now + make_interval(secs => p_former_seconds)
                                      end, updated_at = v_now
   where id = p_endpoint_id returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Send a test event, whatever events the endpoint receives; each call is a new event. Return {job_id, event_id}. GC409
-- for a disabled endpoint.
create function public.giftcard_test_webhook_endpoint(
  p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_event_id text := 'msg_' || replace(gen_random_uuid()::text, '-', '');
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
  v_job json;
begin
  if not e.enabled then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s is off (%s): turn it on first', p_endpoint_id, e.disabled_reason),
      'enabled');
  end if;
  v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
    'tenant_id', e.tenant_id, 'correlation_id', 'webhook-endpoint:' || e.id,
    'stage', 'webhook', 'dedup_key', v_event_id || ':' || e.id,
    'circuit', 'webhook:' || e.id, 'trigger_type', 'test', 'payload', jsonb_build_object(
      'endpoint_id', e.id, 'event_id', v_event_id, 'body', json_build_object(
        'type', 'webhook.test', 'timestamp', to_char(v_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'data', json_build_object('tenant_id', e.tenant_id, 'endpoint_id', e.id))::text))), false, p_now) -> 0;
  return jsonb_build_object('job_id', v_job -> 'id', 'event_id', v_event_id);
end $$;

-- Return one endpoint. GC404 for none.
create function public.giftcard_webhook_endpoint(p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()));
end $$;

-- Return a page of endpoints, the newest first: {endpoints, older}: the id to continue from, null at the end.
create function public.giftcard_list_webhook_endpoints(
  p_tenant_id text default null, p_older bigint default null, p_limit integer default 50,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off
set plan_cache_mode = force_custom_plan as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_page jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  select coalesce(jsonb_agg(public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()))
                            order by e.id desc), '[]') into v_page from (
    select * from public.giftcard_webhook_endpoints
     where (p_tenant_id is null or tenant_id = p_tenant_id) and (p_older is null or id < p_older) order by id desc
       limit v_limit + 1) e;
  if jsonb_array_length(v_page) <= v_limit then
    return jsonb_build_object('endpoints', v_page, 'older', null);
  end if;
  v_page := v_page - v_limit;
  return jsonb_build_object('endpoints', v_page, 'older', v_page -> -1 -> 'id');
end $$;
