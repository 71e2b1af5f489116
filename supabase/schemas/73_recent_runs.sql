-- Recent runs: how many ended in each minute and hour, how long they took and how late they began. Folded from the
-- history with the counters (70_metrics.sql); what is not folded yet is read from the history itself.

create table public.giftcard_run_minutes (
  minute timestamptz not null,
  stage text collate "C" not null,
  result text collate "C" not null,
  bucket smallint not null,
  runs bigint not null,
  longest_ms bigint,
  constraint giftcard_run_minutes_pkey primary key (minute, stage, result, bucket)
);

comment on table public.giftcard_run_minutes is
  'Runs of a stage that ended in a minute with a result and took about as long. Kept for two hours.';
comment on column public.giftcard_run_minutes.bucket is
  'Of the duration: giftcard_measured_runs. -1: the handler did not end.';

create table public.giftcard_start_minutes (
  minute timestamptz not null,
  bucket smallint not null,
  runs bigint not null,
  longest_ms bigint not null,
  constraint giftcard_start_minutes_pkey primary key (minute, bucket)
);

comment on table public.giftcard_start_minutes is
  'Runs that began in a minute, about as long after their time. Kept for two hours.';

create table public.giftcard_run_hours (
  hour timestamptz not null,
  result text collate "C" not null,
  runs bigint not null,
  constraint giftcard_run_hours_pkey primary key (hour, result)
);

comment on table public.giftcard_run_hours is 'Runs that ended in an hour with a result. Kept for eight days.';

-- Return the newest p_limit runs (null: all) that ended after p_from and until p_to, as recent runs count them: ms is
-- the duration, if the handler ended; delay_ms that of giftcard_precision. Times are counted in buckets, ten to each
-- power of ten: those of one bucket differ by a quarter at most.
create function public.giftcard_measured_runs(p_from timestamptz, p_to timestamptz, p_limit integer)
returns table (ended timestamptz, began timestamptz, stage text, result text, bucket smallint, ms bigint,
               delay_bucket smallint, delay_ms bigint)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select date_trunc('minute', h.finished_at, 'UTC'), date_trunc('minute', h.started_at, 'UTC'), left(h.stage, 200),
         h.result::text,
         case when d.ms < 1 then 0 when d.ms is not null then 1 + ceil(10 * log(d.ms)) else -1 end::smallint,
         d.ms::bigint,
         case when w.ms < 1 then 0 when w.ms is not null then 1 + ceil(10 * log(w.ms)) end::smallint, w.ms::bigint
    from (select * from public.giftcard_job_history r
           where r.finished_at > p_from and r.finished_at <= p_to order by r.finished_at desc limit p_limit) h
   cross join lateral (
      select case when h.result in ('SUCCESS', 'FAILED') and isfinite(h.started_at)
                  then greatest(0, round((date_part('epoch', h.finished_at) - date_part('epoch', h.started_at)) * 1000))
             end as ms) d
   cross join lateral (
      select case when h.result <> 'RELEASED' and isfinite(h.scheduled_at) and isfinite(h.started_at)
                       and h.started_at >= h.scheduled_at
                  then round((date_part('epoch', h.started_at) - date_part('epoch', h.scheduled_at)) * 1000)
             end as ms) w
$$;

-- Fold the runs that ended after p_from and until p_to, and forget what is too old to be shown, or from the future: a
-- clock went wrong. giftcard_update_counters calls it, once for each run.
create function public.giftcard_fold_runs(p_from timestamptz, p_to timestamptz, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_minutes timestamptz := p_now - interval '2 hours';
  v_hours timestamptz := p_now - interval '192 hours';
begin
  delete from public.giftcard_run_minutes where minute < v_minutes or minute > p_now;
  delete from public.giftcard_start_minutes where minute < v_minutes or minute > p_now;
  delete from public.giftcard_run_hours where hour < v_hours or hour > p_now;
  with h as materialized (
    select * from public.giftcard_measured_runs(greatest(p_from, v_hours), p_to, null)),
  ended as (
    insert into public.giftcard_run_minutes as m (minute, stage, result, bucket, runs, longest_ms)
    select h.ended, h.stage, h.result, h.bucket, count(*), max(h.ms) from h where h.ended >= v_minutes
     group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (minute, stage, result, bucket) do update
      set runs = m.runs + excluded.runs, longest_ms = greatest(m.longest_ms, excluded.longest_ms)),
  began as (
    insert into public.giftcard_start_minutes as m (minute, bucket, runs, longest_ms)
    select h.began, h.delay_bucket, count(*), max(h.delay_ms) from h
     where h.delay_ms is not null and h.began between v_minutes and p_now group by 1, 2 order by 1, 2
    on conflict (minute, bucket) do update
      set runs = m.runs + excluded.runs, longest_ms = greatest(m.longest_ms, excluded.longest_ms))
  insert into public.giftcard_run_hours as m (hour, result, runs)
  select date_trunc('hour', h.ended, 'UTC'), h.result, count(*) from h group by 1, 2 order by 1, 2
  on conflict (hour, result) do update set runs = m.runs + excluded.runs;
end $$;

-- Return {minutes, hours, starts, stages} of the overview: of the last 60 minutes and 168 hours, the present ones
-- included. What is not folded yet is read live, the newest 10,000 runs of it.
create function public.giftcard_overview_runs(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_minute timestamptz := date_trunc('minute', p_now, 'UTC') - interval '59 minutes';
  v_hour timestamptz := date_trunc('hour', p_now, 'UTC') - interval '167 hours';
  v_until timestamptz := (select until from public.giftcard_counter_watermarks where source = 'history');
begin
  return (
    with tail as materialized (
      select * from public.giftcard_measured_runs(greatest(v_until, v_hour - interval '1 microsecond'), p_now, 10000)),
    ended as materialized (
      select minute, stage, result, bucket, runs, longest_ms from (
        select * from public.giftcard_run_minutes where minute between v_minute and p_now
          order by minute desc limit 50000) m
      union all
      select t.ended, t.stage, t.result, t.bucket, count(*), max(t.ms) from tail t where t.ended >= v_minute
       group by 1, 2, 3, 4),
    began as materialized (
      select minute, bucket, runs, longest_ms from (
        select * from public.giftcard_start_minutes where minute between v_minute and p_now
          order by minute desc limit 10000) m
      union all
      select t.began, t.delay_bucket, count(*), max(t.delay_ms) from tail t
       where t.delay_ms is not null and t.began between v_minute and p_now group by 1, 2),
    hours as (
      select hour, result, runs from public.giftcard_run_hours where hour between v_hour and p_now
      union all
      select date_trunc('hour', t.ended, 'UTC'), t.result, count(*) from tail t group by 1, 2)
    select jsonb_build_object(
      'minutes', (select public.giftcard_runs_by_time(jsonb_agg(to_jsonb(s)), v_minute, interval '1 minute', 60)
                    from (select e.minute as at, e.result, sum(e.runs) as runs from ended e group by 1, 2) s),
      'hours', (select public.giftcard_runs_by_time(jsonb_agg(to_jsonb(s)), v_hour, interval '1 hour', 168)
                  from (select h.hour as at, h.result, sum(h.runs) as runs from hours h group by 1, 2) s),
      'starts', (select public.giftcard_starts_by_minute(jsonb_agg(to_jsonb(s)), v_minute)
                   from (select b.minute as at, b.bucket, sum(b.runs) as runs, max(b.longest_ms) as ms
                           from began b group by 1, 2) s),
      'stages', (select public.giftcard_runs_by_stage(jsonb_agg(to_jsonb(s)))
                   from (select e.stage, e.result, e.bucket, sum(e.runs) as runs, max(e.longest_ms) as ms
                           from ended e group by 1, 2, 3) s)));
end $$;

-- Return p_count times from p_from on, each with its runs by result, of [{at, result, runs}].
create function public.giftcard_runs_by_time(p_runs jsonb, p_from timestamptz, p_step interval, p_count integer)
returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_agg(jsonb_build_object(
      'at', n.at, 'succeeded', coalesce(s.succeeded, 0), 'failed', coalesce(s.failed, 0),
      'interrupted', coalesce(s.interrupted, 0), 'snoozed', coalesce(s.snoozed, 0)) order by n.at)
    from (select p_from + p_step * i as at from generate_series(0, p_count - 1) i) n
    left join (
      select r.at, sum(r.runs) filter (where r.result = 'SUCCESS') as succeeded,
             sum(r.runs) filter (where r.result = 'FAILED') as failed,
             sum(r.runs) filter (where r.result = 'INTERRUPTED') as interrupted,
             sum(r.runs) filter (where r.result = 'SNOOZED') as snoozed
        from jsonb_to_recordset(p_runs) r(at timestamptz, result text, runs bigint) group by r.at) s on s.at = n.at
$$;

-- Return 60 minutes from p_from on, each with how long after their time its runs began, of [{at, bucket, runs, ms}].
create function public.giftcard_starts_by_minute(p_starts jsonb, p_from timestamptz) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_agg(jsonb_build_object('at', n.at, 'runs', coalesce(s.runs, 0), 'p50_ms', s.p50, 'p95_ms', s.p95,
                                      'max_ms', s.longest) order by n.at)
    from (select p_from + interval '1 minute' * i as at from generate_series(0, 59) i) n
    left join (
      select r.at, max(r.runs) as runs, min(r.ms) filter (where r.upto >= r.runs * 0.5) as p50,
             min(r.ms) filter (where r.upto >= r.runs * 0.95) as p95, max(r.ms) as longest
        from (select b.at, b.ms, sum(b.runs) over (partition by b.at order by b.bucket) as upto,
                     sum(b.runs) over (partition by b.at) as runs
                from jsonb_to_recordset(p_starts) b(at timestamptz, bucket integer, runs bigint, ms bigint)) r
       group by r.at) s on s.at = n.at
$$;

-- Return {stage: {runs, succeeded, p50_ms, p95_ms}} of [{stage, result, bucket, runs, ms}]. A run that was snoozed or
-- released does not count; the durations are of those whose handler ended.
create function public.giftcard_runs_by_stage(p_runs jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  with r as materialized (
    select * from jsonb_to_recordset(p_runs) r(stage text, result text, bucket integer, runs bigint, ms bigint)
     where r.result in ('SUCCESS', 'FAILED', 'INTERRUPTED')),
  buckets as (
    select r.stage, r.bucket, sum(r.runs) as runs, max(r.ms) as ms from r where r.bucket >= 0 group by 1, 2),
  times as (
    select t.stage, min(t.ms) filter (where t.upto >= t.runs * 0.5) as p50,
           min(t.ms) filter (where t.upto >= t.runs * 0.95) as p95
      from (select b.stage, b.ms, sum(b.runs) over (partition by b.stage order by b.bucket) as upto,
                   sum(b.runs) over (partition by b.stage) as runs from buckets b) t
     group by t.stage)
  select coalesce(jsonb_object_agg(s.stage, jsonb_build_object(
      'runs', s.runs, 'succeeded', s.succeeded, 'p50_ms', t.p50, 'p95_ms', t.p95)), '{}')
    from (select r.stage, sum(r.runs) as runs, coalesce(sum(r.runs) filter (where r.result = 'SUCCESS'), 0) as succeeded
            from r group by r.stage) s
    left join times t on t.stage = s.stage
$$;
