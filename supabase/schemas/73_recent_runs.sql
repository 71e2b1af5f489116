-- Recent runs: how many ended in each minute and hour, how long they took and how late they began. Folded from the
-- history with the counters (70_metrics.sql); what is not folded yet is read from the history itself.

create table public.giftcard_run_minutes (
  minute timestamptz not null,
  stage text collate "C" not null,
  result text collate "C" not null,
  bucket smallint not null,
  runs integer not null,
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
  runs integer not null,
  longest_ms bigint not null,
  constraint giftcard_start_minutes_pkey primary key (minute, bucket)
);

comment on table public.giftcard_start_minutes is
  'Runs that began in a minute, about as long after their time. Kept for two hours.';

create table public.giftcard_run_hours (
  hour timestamptz not null,
  result text collate "C" not null,
  runs integer not null,
  constraint giftcard_run_hours_pkey primary key (hour, result)
);

comment on table public.giftcard_run_hours is 'Runs that ended in an hour with a result. Kept for eight days.';

-- A run, as recent runs count it: the minutes in which it began and ended; ms: its duration, if its handler ended;
-- delay_ms: how long after its time it began, as in giftcard_precision. Both also in buckets, ten to each power of ten:
-- times of one bucket differ by a quarter at most.
create type public.giftcard_measured_run as (
  ended timestamptz, began timestamptz, stage text, result text, bucket smallint, ms bigint, delay_bucket smallint,
  delay_ms bigint);

-- Return the newest p_limit runs (null: all) that ended after p_from and until p_to.
create function public.giftcard_measured_runs(p_from timestamptz, p_to timestamptz, p_limit integer)
returns setof public.giftcard_measured_run
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select date_bin('1 minute', h.finished_at, '2000-01-01Z'), date_bin('1 minute', h.started_at, '2000-01-01Z'),
           left(h.stage, 200), h.result::text,
           case when d.ms < 1 then 0 when d.ms is not null then 1 + ceil(10 * log(d.ms)) else -1 end::smallint,
           d.ms::bigint,
           case when w.ms < 1 then 0 when w.ms is not null then 1 + ceil(10 * log(w.ms)) end::smallint, w.ms::bigint
      from (select * from public.giftcard_job_history r
             where r.finished_at > p_from and r.finished_at <= p_to order by r.finished_at desc limit p_limit) h
     cross join lateral (select date_part('epoch', h.started_at) as began) s
     cross join lateral (
        select case when h.result in ('SUCCESS', 'FAILED') and isfinite(h.started_at)
                    then greatest(0, round((date_part('epoch', h.finished_at) - s.began) * 1000)) end as ms) d
     cross join lateral (
        select case when h.result <> 'RELEASED' and isfinite(h.scheduled_at) and isfinite(h.started_at)
                         and h.started_at >= h.scheduled_at
                    then round((s.began - date_part('epoch', h.scheduled_at)) * 1000) end as ms) w;
end $$;

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
  select date_bin('1 hour', h.ended, '2000-01-01Z'), h.result, count(*) from h group by 1, 2 order by 1, 2
  on conflict (hour, result) do update set runs = m.runs + excluded.runs;
end $$;

-- Return how many runs ended in each of 60 minutes from p_from on: those that are folded, and p_tail.
create function public.giftcard_runs_by_minute(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      (select m.minute, m.result, m.runs from public.giftcard_run_minutes m
        where m.minute >= p_from and m.minute < p_from + interval '1 hour' order by m.minute limit 50000)
      union all
      select t.ended, t.result, 1 from unnest(p_tail) t),
    sums as (
      select r.minute, sum(r.runs) filter (where r.result = 'SUCCESS') as succeeded,
             sum(r.runs) filter (where r.result = 'FAILED') as failed,
             sum(r.runs) filter (where r.result = 'INTERRUPTED') as interrupted,
             sum(r.runs) filter (where r.result = 'SNOOZED') as snoozed
        from runs r group by r.minute)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'succeeded', coalesce(s.succeeded, 0), 'failed', coalesce(s.failed, 0),
        'interrupted', coalesce(s.interrupted, 0), 'snoozed', coalesce(s.snoozed, 0)) order by n.at)
      from (select p_from + interval '1 minute' * i as at from generate_series(0, 59) i) n
      left join sums s on s.minute = n.at);
end $$;

-- Return how many runs ended in each of 168 hours from p_from on: those that are folded, and p_tail.
create function public.giftcard_runs_by_hour(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      select h.hour, h.result, h.runs from public.giftcard_run_hours h
       where h.hour >= p_from and h.hour < p_from + interval '168 hours'
      union all
      select date_bin('1 hour', t.ended, '2000-01-01Z'), t.result, 1 from unnest(p_tail) t),
    sums as (
      select r.hour, sum(r.runs) filter (where r.result = 'SUCCESS') as succeeded,
             sum(r.runs) filter (where r.result = 'FAILED') as failed,
             sum(r.runs) filter (where r.result = 'INTERRUPTED') as interrupted,
             sum(r.runs) filter (where r.result = 'SNOOZED') as snoozed
        from runs r group by r.hour)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'succeeded', coalesce(s.succeeded, 0), 'failed', coalesce(s.failed, 0),
        'interrupted', coalesce(s.interrupted, 0), 'snoozed', coalesce(s.snoozed, 0)) order by n.at)
      from (select p_from + interval '1 hour' * i as at from generate_series(0, 167) i) n
      left join sums s on s.hour = n.at);
end $$;

-- Return for each of 60 minutes from p_from on how long after their time its runs began. A percentile is the longest
-- delay of the bucket that it falls into.
create function public.giftcard_starts_by_minute(p_from timestamptz, p_tail public.giftcard_measured_run[])
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      select m.minute, m.bucket, m.runs, m.longest_ms as ms from public.giftcard_start_minutes m
       where m.minute >= p_from and m.minute < p_from + interval '1 hour'
      union all
      select t.began, t.delay_bucket, 1, t.delay_ms from unnest(p_tail) t where t.delay_ms is not null),
    buckets as (
      select r.minute, max(r.ms) as ms,
             sum(sum(r.runs)::integer) over (partition by r.minute order by r.bucket) as upto,
             sum(sum(r.runs)::integer) over (partition by r.minute) as runs
        from runs r group by r.minute, r.bucket),
    minutes as (
      select b.minute, max(b.runs) as runs, min(b.ms) filter (where 2 * b.upto >= b.runs) as p50,
             min(b.ms) filter (where 20 * b.upto >= 19 * b.runs) as p95, max(b.ms) as longest
        from buckets b group by b.minute)
    select jsonb_agg(jsonb_build_object('at', n.at, 'runs', coalesce(m.runs, 0), 'p50_ms', m.p50, 'p95_ms', m.p95,
                                        'max_ms', m.longest) order by n.at)
      from (select p_from + interval '1 minute' * i as at from generate_series(0, 59) i) n
      left join minutes m on m.minute = n.at);
end $$;

-- Return {stage: {runs, succeeded, p50_ms, p95_ms}} of the runs that ended within 60 minutes from p_from on. A run that
-- was snoozed or released does not count; the durations are of those whose handler ended.
create function public.giftcard_runs_by_stage(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      (select m.stage, m.result, m.bucket, m.runs, m.longest_ms as ms from public.giftcard_run_minutes m
        where m.minute >= p_from and m.minute < p_from + interval '1 hour' order by m.minute limit 50000)
      union all
      select t.stage, t.result, t.bucket, 1, t.ms from unnest(p_tail) t where t.ended >= p_from),
    buckets as materialized (
      select r.stage, r.bucket, sum(r.runs)::integer as runs, max(r.ms) as ms,
             coalesce(sum(r.runs) filter (where r.result = 'SUCCESS'), 0)::integer as succeeded
        from runs r where r.result in ('SUCCESS', 'FAILED', 'INTERRUPTED') group by r.stage, r.bucket),
    times as (
      select t.stage, min(t.ms) filter (where 2 * t.upto >= t.runs) as p50,
             min(t.ms) filter (where 20 * t.upto >= 19 * t.runs) as p95
        from (select b.stage, b.ms, sum(b.runs) over (partition by b.stage order by b.bucket) as upto,
                     sum(b.runs) over (partition by b.stage) as runs from buckets b where b.bucket >= 0) t
       group by t.stage)
    select coalesce(jsonb_object_agg(s.stage, jsonb_build_object(
        'runs', s.runs, 'succeeded', s.succeeded, 'p50_ms', t.p50, 'p95_ms', t.p95)), '{}')
      from (select b.stage, sum(b.runs) as runs, sum(b.succeeded) as succeeded from buckets b
             group by b.stage order by b.stage limit 1000) s
      left join times t on t.stage = s.stage);
end $$;

-- Return {minutes, hours, starts, stages} of the overview: of the last 60 minutes and 168 hours, the present ones
-- included. What is not folded yet is read live, the newest 10,000 runs of it.
create function public.giftcard_overview_runs(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_minute timestamptz := date_bin('1 minute', p_now, '2000-01-01Z') - interval '59 minutes';
  v_hour timestamptz := date_bin('1 hour', p_now, '2000-01-01Z') - interval '167 hours';
  v_from timestamptz := (select greatest(until, v_hour - interval '1 microsecond')
                           from public.giftcard_counter_watermarks where source = 'history');
  v_tail public.giftcard_measured_run[] := array(select public.giftcard_measured_runs(v_from, p_now, 10000));
begin
  return jsonb_build_object(
    'minutes', public.giftcard_runs_by_minute(v_minute, v_tail),
    'hours', public.giftcard_runs_by_hour(v_hour, v_tail),
    'starts', public.giftcard_starts_by_minute(v_minute, v_tail),
    'stages', public.giftcard_runs_by_stage(v_minute, v_tail));
end $$;
