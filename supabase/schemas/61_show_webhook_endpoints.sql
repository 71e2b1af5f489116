-- Webhook endpoints as they are shown.

-- Return one endpoint. GC404 for none.
create function public.giftcard_webhook_endpoint(
  p_endpoint_id bigint, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints
   where id = p_endpoint_id and (p_tenant_id is null or tenant_id = p_tenant_id);
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
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  e public.giftcard_webhook_endpoints;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for e in select * from public.giftcard_webhook_endpoints
            where (p_tenant_id is null or tenant_id = p_tenant_id) and (p_older is null or id < p_older)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('endpoints', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
