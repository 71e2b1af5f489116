-- Show reports: one, and a page of them.

-- Return a stored report without its details: {tenant_id, day, made_at, complete, totals}. Figures that are no whole
-- numbers are left out.
create function public.giftcard_report_summary(r public.giftcard_reports) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(jsonb_build_object(
    'tenant_id', r.tenant_id, 'day', r.day, 'made_at', r.made_at,
    'complete', coalesce(r.report -> 'complete' = 'true', false),
    'totals', (select coalesce(jsonb_object_agg(t.key, t.value), '{}')
                 from jsonb_each(case when jsonb_typeof(r.report -> 'totals') = 'object' then r.report -> 'totals'
                                      else '{}' end) t
                where t.key in ('orders', 'payments', 'cards', 'failures', 'retries', 'dead_letters',
                                'differences')
                  and t.value::text ~ '^-?[0-9]{1,18}$')));
end $$;

-- Return the first entries of a list of a report, as far as they have these fields: texts and whole numbers. They are
-- more and longer than giftcard_make_report writes, and bounded.
create function public.giftcard_report_list(p_list jsonb, p_texts text[], p_numbers text[]) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(e.entry order by e.n), '[]')
    from jsonb_array_elements(case when jsonb_typeof(p_list) = 'array' then p_list else '[]' end)
           with ordinality e(entry, n)
   where e.n <= 400 and octet_length(e.entry::text) <= 2000
     and not exists (select from unnest(p_texts) f(name)
                      where jsonb_typeof(e.entry -> f.name) is distinct from 'string')
     and not exists (select from unnest(p_numbers) f(name)
                      where coalesce((e.entry -> f.name)::text, '') !~ '^-?[0-9]{1,18}$')
$$;

-- Return the report of a tenant's day, as it was last made. What is not as giftcard_make_report makes it is left out.
-- GC404 for none.
create function public.giftcard_report(p_tenant_id text, p_day date) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r public.giftcard_reports;
begin
  select * into r from public.giftcard_reports where tenant_id = p_tenant_id and day = p_day;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('tenant %s has no report of %s: make it first', p_tenant_id, p_day), 'day');
  end if;
  return public.giftcard_report_summary(r) || jsonb_build_object(
    'currencies', public.giftcard_report_list(r.report -> 'currencies', '{currency}', array[
      'orders', 'orders_amount', 'payments', 'payments_amount', 'cards', 'cards_amount']),
    'failures', public.giftcard_report_list(r.report -> 'failures', '{stage,reason}',
                                            '{failures,retries,dead_letters}'),
    'differences', public.giftcard_report_list(r.report -> 'differences', '{kind,currency}', '{items,amount}'),
    'last_days', public.giftcard_report_list(r.report -> 'last_days', '{day}', '{cards}'));
end $$;

-- Return a page of reports, the newest day first: {reports: [{tenant_id, day, made_at, complete, totals}], older}: the
-- cursor to continue from, null at the end.
create function public.giftcard_list_reports(
  p_tenant_id text default null, p_older text default null, p_limit integer default 50) returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_cursor text[] := regexp_match(p_older, '^([0-9]{4,7}-[0-9]{2}-[0-9]{2}(?: BC)?|-?infinity)/(.+)$');
  r public.giftcard_reports;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  if p_older is not null and v_cursor is null then
    perform public.giftcard_refuse('GC400', 'older must be a cursor that an earlier page gave', 'older');
  end if;
  -- One more than the page holds: its presence means that there are more.
  for r in select * from public.giftcard_reports
            where (p_tenant_id is null or tenant_id = p_tenant_id)
              and (p_older is null or (day, tenant_id) < (v_cursor[1]::date, v_cursor[2]))
            order by day desc, tenant_id desc limit v_limit + 1 loop
    v_row := public.giftcard_report_summary(r);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  v_row := v_rows[cardinality(v_rows)];
  return jsonb_build_object('reports', to_jsonb(v_rows),
                            'older', case when v_more then (v_row ->> 'day') || '/' || (v_row ->> 'tenant_id') end);
end $$;
