-- The jobs of a schedule, and all their runs.

-- Return the jobs of a schedule, the newest occurrence first, with p_archived also those in the archive (job: null):
-- those at or before a correlation id and an id (null: all), at most p_limit.
create function public.giftcard_schedule_jobs(
  p_id bigint, p_tenant_id text, p_until text, p_until_id bigint, p_archived boolean, p_limit integer)
returns table (correlation_id text, id bigint, job jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select t.correlation_id, t.id, t.job from (
    (select j.correlation_id, j.id, jsonb_build_object(
         'id', j.id, 'status', j.status, 'attempts', j.attempts, 'scheduled_at', j.scheduled_at,
         'created_at', j.created_at, 'finished_at', j.finished_at, 'last_error', left(j.last_error, 500)) as job
       from public.giftcard_jobs j
      where j.tenant_id = p_tenant_id and j.correlation_id >= 'schedule:' || p_id || ':'
        and j.correlation_id < 'schedule:' || p_id || ';' and starts_with(j.trigger_type, 'schedule')
        and (p_until is null or (j.correlation_id, j.id) <= (p_until, p_until_id))
      order by j.correlation_id desc, j.id desc limit p_limit)
    union all
    (select a.correlation_id, a.id, null
       from public.giftcard_jobs_archive a
      where p_archived and a.tenant_id = p_tenant_id and a.correlation_id >= 'schedule:' || p_id || ':'
        and a.correlation_id < 'schedule:' || p_id || ';' and starts_with(a.job ->> 'trigger_type', 'schedule')
        and (p_until is null or (a.correlation_id, a.id) <= (p_until, p_until_id))
      order by a.correlation_id desc, a.id desc limit p_limit)) t
   order by t.correlation_id desc, t.id desc limit p_limit
$$;

-- Return the parts of a cursor of a schedule's lists: {time of the occurrence, job id, run_no}; null without a cursor.
-- GC400 for what is none.
create function public.giftcard_schedule_cursor(p_older text) returns text[]
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_cursor text[] := regexp_match(p_older, '^(.*)/([0-9]{1,18})/([0-9]{1,9})$');
begin
  if p_older is not null and v_cursor is null then
    perform public.giftcard_refuse('GC400', 'older must be a cursor that an earlier page gave', 'older');
  end if;
  return v_cursor;
end $$;

-- Return a page of the jobs of a schedule, the newest occurrence first: {occurrences: [{id, time (of the occurrence),
-- status, …}], older: the cursor to continue from, null at the end}. Archived ones are left out.
create function public.giftcard_occurrences(
  p_id bigint, p_limit integer default 10, p_older text default null, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  v_tenant text := public.giftcard_show_schedule(p_id, p_tenant_id) ->> 'tenant_id';
  v_prefix text := 'schedule:' || p_id || ':';
  v_cursor text[] := public.giftcard_schedule_cursor(p_older);
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_row jsonb;
  v_more boolean := false;
  j record;
begin
  for j in select * from public.giftcard_schedule_jobs(
                           p_id, v_tenant, v_prefix || v_cursor[1], v_cursor[2]::bigint - 1, false, v_limit + 1)
            order by correlation_id desc, id desc limit v_limit + 1 loop
    v_row := j.job || jsonb_build_object('time', substr(j.correlation_id, length(v_prefix) + 1));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  v_row := v_rows[cardinality(v_rows)];
  return jsonb_build_object('occurrences', to_jsonb(v_rows),
                            'older', case when v_more then format('%s/%s/0', v_row ->> 'time', v_row ->> 'id') end);
end $$;

-- Return a page of all runs of all jobs of a schedule, also of archived ones: {runs: as giftcard_run_json, with the
-- time of the occurrence; older: the cursor to continue from, null at the end}. The newest occurrence comes first, of
-- each the newest run. A page passes over 1,000 jobs at most, and may be short if they have no runs.
create function public.giftcard_schedule_history(
  p_id bigint, p_limit integer default 10, p_older text default null, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  v_tenant text := public.giftcard_show_schedule(p_id, p_tenant_id) ->> 'tenant_id';
  v_prefix text := 'schedule:' || p_id || ':';
  v_cursor text[] := public.giftcard_schedule_cursor(p_older);
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_row jsonb;
  v_time text;
  v_before integer;
  v_older text;
  v_seen integer := 0;
  j record;
begin
  for j in select * from public.giftcard_schedule_jobs(
                           p_id, v_tenant, v_prefix || v_cursor[1], v_cursor[2]::bigint, true, 1000)
            order by correlation_id desc, id desc limit 1000 loop
    v_seen := v_seen + 1;
    v_time := substr(j.correlation_id, length(v_prefix) + 1);
    v_before := case when v_seen = 1 and j.id = v_cursor[2]::bigint then v_cursor[3]::integer end;
    for v_row in select public.giftcard_run_json(h) || jsonb_build_object('time', v_time)
                   from public.giftcard_job_history h
                  where h.job_id = j.id and (v_before is null or h.run_no < v_before)
                  order by h.run_no desc limit v_limit + 1 loop
      v_bytes := v_bytes + octet_length(v_row::text);
      if public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes) then
        return jsonb_build_object('runs', to_jsonb(v_rows), 'older', v_older);
      end if;
      v_rows := v_rows || v_row;
      v_older := format('%s/%s/%s', v_time, j.id, v_row ->> 'run_no');
    end loop;
  end loop;
  return jsonb_build_object('runs', to_jsonb(v_rows),
                            'older', case when v_seen = 1000 then format('%s/%s/0', v_time, j.id) end);
end $$;
