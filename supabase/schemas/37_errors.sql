-- Errors, grouped: what fails, how often, since when.

-- Return dead letters, the newest p_scan of each stage, and jobs that are retried, among the first p_scan of each
-- queue. capped: its stage or queue has as many as are read, so that there may be more.
create function public.giftcard_failed_jobs(p_stage text, p_scan integer, p_now timestamptz)
returns table (
  kind text, stage text, tenant_id text, error text, error_kind text, at timestamptz, revive_at timestamptz,
  job_id bigint, capped boolean)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive stages as (
    (select j.stage from public.giftcard_jobs j
      where j.status = 'error' and (p_stage is null or j.stage = p_stage) order by j.stage limit 1)
    union all
    select n.stage from stages s cross join lateral (
      select j.stage from public.giftcard_jobs j
       where j.status = 'error' and j.stage > s.stage and p_stage is null order by j.stage limit 1) n)
  (select 'dead', d.stage, d.tenant_id, d.last_error, d.error_kind, d.finished_at, d.revive_at,
          d.id, count(*) over (partition by d.stage) >= p_scan
     from (select * from stages limit 200) s cross join lateral (
       select j.* from public.giftcard_jobs j where j.status = 'error' and j.stage = s.stage
        order by j.finished_at desc, j.id desc limit p_scan) d)
  union all
  (select 'retrying', r.stage, r.tenant_id, r.last_error, r.error_kind, r.updated_at, null::timestamptz, r.id,
          r.seen >= p_scan
     from (select * from public.giftcard_queue_heads('{}', p_now) q
            where p_stage is null or q.stage = p_stage limit 200) h cross join lateral (
       select f.*, count(*) over () as seen from (
         select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
           select j.* from public.giftcard_jobs j
            where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
            order by j.scheduled_at, j.id limit p_scan) o
          order by o.scheduled_at, o.id limit p_scan) f) r
    where r.attempts > 0 and r.last_error is not null)
  union all
  (select 'retrying', r.stage, r.tenant_id, r.last_error, r.error_kind, r.updated_at, null::timestamptz, r.id, false
     from (select j.* from public.giftcard_jobs j where j.status = 'running'
            order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit p_scan) r
    where r.attempts > 1 and r.last_error is not null and (p_stage is null or r.stage = p_stage))
$$;

-- Return the runs that have failed since a time, the newest 10,000, as giftcard_failed_jobs does. A run belongs to the
-- tenant of its job; null: the job is gone. Their kinds are not kept.
create function public.giftcard_failed_runs(p_stage text, p_since timestamptz)
returns table (
  kind text, stage text, tenant_id text, error text, error_kind text, at timestamptz, revive_at timestamptz,
  job_id bigint, capped boolean)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select 'run', h.stage, coalesce(
           (select j.tenant_id from public.giftcard_jobs j where j.id = h.job_id),
           (select a.tenant_id from public.giftcard_jobs_archive a where a.id = h.job_id)),
         h.error, null, h.finished_at, null::timestamptz, h.job_id, count(*) over () >= 10000
    from (select * from public.giftcard_job_history r
           where r.result in ('FAILED', 'INTERRUPTED') and r.finished_at >= p_since
           order by r.finished_at desc limit 10000) h
   where p_stage is null or h.stage = p_stage
$$;

-- Return errors by stage and kind, the most frequent first: {errors: [{stage, error, count: of
-- jobs, dead, retrying, runs, capped, first_at, last_at, next_revival_at: of its dead letters, job_id: the newest,
-- last_error: its own}], more}. p_since: only what has failed since, and the runs since then; null: runs are not
-- counted. capped: there may be more.
create function public.giftcard_errors(
  p_stage text default null, p_since timestamptz default null, p_limit integer default 50,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_found jsonb;
begin
  with failures as (
    select * from public.giftcard_failed_jobs(p_stage, 1000, coalesce(p_now, clock_timestamp()))
    union all
    select * from public.giftcard_failed_runs(p_stage, p_since) where p_since is not null),
  -- By text first: the kind of each is made once.
  texts as (
    select f.kind, f.stage, f.error_kind, left(f.error, 500) as error, count(*) as n, min(f.at) as first_at,
           max(f.at) as last_at, min(f.revive_at) as revive_at, max(f.job_id) as job_id, bool_or(f.capped) as capped
      from failures f
     where (p_tenant_id is null or f.tenant_id = p_tenant_id) and (p_since is null or f.at >= p_since)
     group by f.kind, f.stage, f.error_kind, left(f.error, 500)),
  kinds as (
    select t.stage, coalesce(t.error_kind, public.giftcard_error_kind(t.error)) as error,
           coalesce(sum(t.n) filter (where t.kind <> 'run'), 0) as count,
           coalesce(sum(t.n) filter (where t.kind = 'dead'), 0) as dead,
           coalesce(sum(t.n) filter (where t.kind = 'retrying'), 0) as retrying,
           case when p_since is not null then coalesce(sum(t.n) filter (where t.kind = 'run'), 0) end as runs,
           bool_or(t.capped) as capped, min(t.first_at) as first_at, max(t.last_at) as last_at,
           min(t.revive_at) as next_revival_at,
           (array_agg(t.job_id order by t.kind = 'run', t.last_at desc))[1] as job_id,
           (array_agg(t.error order by t.kind = 'run', t.last_at desc))[1] as last_error
      from texts t group by t.stage, coalesce(t.error_kind, public.giftcard_error_kind(t.error)))
  select coalesce(jsonb_agg(to_jsonb(k) order by greatest(k.count, k.runs) desc, k.last_at desc, k.stage, k.error),
                  '[]') into v_found from (
      select * from kinds order by greatest(count, runs) desc, last_at desc, stage, error limit v_limit + 1) k;
  -- One more than the list holds: its presence means that there are more.
  return jsonb_build_object('errors', v_found - v_limit, 'more', jsonb_array_length(v_found) > v_limit);
end $$;
