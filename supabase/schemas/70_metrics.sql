-- Metrics: numbers for Prometheus, in one call that stays cheap with millions of rows.

-- Totals that only grow, although history and ticks are pruned. giftcard_update_counters defines each.
create table public.giftcard_counters (
  name text collate "C" not null,
  stage text collate "C" not null default '',
  label text collate "C" not null default '',
  value double precision not null default 0,
  constraint giftcard_counters_pkey primary key (name, stage, label)
);

comment on table public.giftcard_counters is
  'Counters for metrics: runs by stage and result, seconds, start delays, ticks. Kept when history is pruned.';

-- How far history and ticks are counted.
create table public.giftcard_counter_watermarks (
  source text collate "C" not null,
  until timestamptz not null default '-infinity',
  constraint giftcard_counter_watermarks_pkey primary key (source)
);

comment on table public.giftcard_counter_watermarks is
  'Up to which time history and ticks are counted in giftcard_counters.';

insert into public.giftcard_counter_watermarks (source) values ('history'), ('ticks');

create index giftcard_ticks_ended on public.giftcard_ticks (ended_at) where ended_at is not null;

-- Add to counters: [{name, stage, label, value}].
create function public.giftcard_increment_counters(p_counters jsonb) returns void
language sql volatile security invoker set search_path = '' as $$
  insert into public.giftcard_counters (name, stage, label, value)
  select s.name, coalesce(s.stage, ''), coalesce(s.label, ''), s.value
    from jsonb_to_recordset(p_counters) as s(name text, stage text, label text, value double precision)
   order by s.name, s.stage, s.label
  on conflict (name, stage, label) do update set value = giftcard_counters.value + excluded.value
$$;

-- Count the runs that ended after p_from and until p_to. A name that is too long for an index is cut.
create function public.giftcard_count_runs(p_from timestamptz, p_to timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
    with h as (
      -- giftcard_milliseconds, inline
      select left(stage, 200) as stage, result,
             case when isfinite(started_at)
                  then round((date_part('epoch', finished_at) - date_part('epoch', started_at)) * 1000)
                       / 1000 end as seconds,
             case when result <> 'RELEASED' and isfinite(scheduled_at) and isfinite(started_at)
                       and started_at >= scheduled_at
                  then round((date_part('epoch', started_at) - date_part('epoch', scheduled_at)) * 1000)
                       / 1000 end as delay
        from public.giftcard_job_history where finished_at > p_from and finished_at <= p_to)
    select 'runs' as name, stage, result as label, count(*) as value from h group by stage, result
    union all
    select 'run_seconds', stage, result, coalesce(sum(seconds), 0) from h group by stage, result
    union all
    select 'start_delays', stage, b.le, count(*) from h
     cross join (values ('1', 1.0), ('2', 2), ('5', 5), ('15', 15), ('60', 60), ('120', 120), ('300', 300),
                 ('1800', 1800), ('+Inf', 'infinity'::double precision)) as b(le, most)
     where delay <= b.most::double precision group by stage, b.le
    union all
    select 'start_delay_seconds', stage, '', sum(delay) from h where delay is not null group by stage) s;
end $$;

-- Count the ticks that ended after p_from and until p_to.
create function public.giftcard_count_ticks(p_from timestamptz, p_to timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
    with t as (select * from public.giftcard_ticks
               where ended_at is not null and ended_at > p_from and ended_at <= p_to)
    select 'ticks' as name, '' as stage, stopped_because as label, count(*) as value from t group by stopped_because
    union all
    select 'tick_seconds', '', '', coalesce(sum(public.giftcard_milliseconds(started_at, ended_at) / 1000.0), 0)
      from t
     having count(*) > 0
    union all
    select 'leases_lost', '', '', sum(lease_lost) from t having count(*) > 0
    union all
    select 'interrupted', '', '', sum(interrupted) from t having count(*) > 0) s;
end $$;

-- Count what has ended since the last call, except for the last ten seconds, so that no transaction about to commit is
-- skipped; fold recent runs (73_recent_runs.sql). At most p_limit rows of each kind a call; the rest is counted by the
-- next. Of two calls at once, one counts. Return how many runs were found, p_limit at
-- most.
create function public.giftcard_update_counters(
  p_limit integer default 20000, p_now timestamptz default null) returns bigint
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_settled timestamptz := v_now - interval '10 seconds';
  v_runs bigint;
  v_from timestamptz;
  v_to timestamptz;
begin
  select until into v_from from public.giftcard_counter_watermarks where source = 'history' for update skip locked;
  if not found then
    return 0::bigint;
  end if;
  -- All rows of the last instant are counted: the next call begins after it.
  select max(finished_at), count(*) into v_to, v_runs from (
    select finished_at from public.giftcard_job_history where finished_at > v_from and finished_at <= v_settled
      order by finished_at limit p_limit) h;
  if v_to is not null then
    perform public.giftcard_count_runs(v_from, v_to);
    perform public.giftcard_fold_runs(v_from, v_to, v_now);
    update public.giftcard_counter_watermarks set until = v_to where source = 'history';
  end if;
  select until into v_from from public.giftcard_counter_watermarks where source = 'ticks' for update;
  select max(ended_at) into v_to from (
    select ended_at from public.giftcard_ticks
      where ended_at is not null and ended_at > v_from and ended_at <= v_settled order by ended_at limit p_limit) t;
  if v_to is not null then
    perform public.giftcard_count_ticks(v_from, v_to);
    update public.giftcard_counter_watermarks set until = v_to where source = 'ticks';
  end if;
  return v_runs;
end $$;

-- Return whether giftcard_update_counters would find runs to count: one probe of an index.
create function public.giftcard_has_uncounted_runs(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  return exists (
    select from public.giftcard_job_history
     where finished_at > (select until from public.giftcard_counter_watermarks where source = 'history')
       and finished_at <= p_now - interval '10 seconds');
end $$;

-- Return all that a scrape shows: {counters: [{name, stage, label, value}], jobs: [{stage, status, jobs}] of those that
-- have not ended well (each counted up to 100,000), due: {stage: seconds its oldest due job waits}, dead: {stage:
-- seconds since its oldest died}, circuits: [{stage, state, circuits}], differences: {kind: items} between money and
-- cards, limits: as giftcard_limit_metrics, tick: {age, seconds, gap} of the newest ticks that ended well}.
create function public.giftcard_metrics(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set enable_bitmapscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  perform public.giftcard_update_counters(20000, p_now);
  return jsonb_build_object(
    'counters', (select coalesce(jsonb_agg(to_jsonb(s) order by s.name, s.stage, s.label), '[]')
               from (select * from public.giftcard_counters order by name, stage, label limit 10000) s),
    'jobs', (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from public.giftcard_open_counts(100000) c),
    'due', (select coalesce(jsonb_object_agg(d.stage, d.seconds), '{}') from (
              select h.stage, extract(epoch from v_now - min(h.head_at)) as seconds
                from public.giftcard_queue_heads(p_stages, v_now) h
               where h.head_at <= v_now and isfinite(h.head_at) group by h.stage order by h.stage limit 1000) d),
    'dead', (select coalesce(jsonb_object_agg(d.stage, d.seconds), '{}') from (
              select c.stage, (
                select public.giftcard_milliseconds(j.finished_at, v_now) / 1000.0 from public.giftcard_jobs j
                 where j.status = 'error' and j.stage = c.stage and j.finished_at is not null
                   order by j.finished_at, j.id limit 1) as seconds
                from public.giftcard_dead_stages() c) d where d.seconds is not null),
    'circuits', (select coalesce(jsonb_agg(to_jsonb(k)), '[]') from (
              select public.giftcard_stage_of(circuit) as stage, state, count(*) as circuits
                from (select circuit, state from public.giftcard_circuits where failures > 0 or state <> 'closed'
                      order by circuit limit 10000) t
               where state <> 'closed' group by 1, 2 order by 1, 2) k),
    'differences', (select coalesce(jsonb_object_agg(d.kind, d.items), '{}') from (
              select r.kind, count(*) as items from public.giftcard_reconcile() r group by r.kind order by r.kind) d),
    'limits', public.giftcard_limit_metrics(v_now),
    'waking', public.giftcard_waking(v_now),
    'tick', public.giftcard_tick_metrics(v_now));
end $$;

-- Return the metrics of the newest 200 ticks: {age: seconds since the last of them that ended well has ended, or since
-- the first began; gap: the longest pause between the last 20 that ended well; seconds: how long the last took}.
create function public.giftcard_tick_metrics(p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with seen as (
    select t.* from (select * from public.giftcard_ticks order by id desc limit 200) t
     where t.started_at between '2000-01-01' and p_now),
  good as (
    select s.* from seen s
     where public.giftcard_ended_well(s.ended_at, s.stopped_because) and s.ended_at between s.started_at and p_now
     order by s.id desc limit 20),
  gaps as (select g.ended_at - lag(g.ended_at) over (order by g.ended_at) as gap from good g)
  select jsonb_build_object(
    'age', public.giftcard_milliseconds(
      coalesce((select max(g.ended_at) from good g), (select min(s.started_at) from seen s)), p_now) / 1000.0,
    'gap', (select extract(epoch from max(p.gap)) from gaps p),
    'seconds', (select public.giftcard_milliseconds(g.started_at, g.ended_at) / 1000.0
                  from good g order by g.id desc limit 1))
$$;

-- Return the stages that have dead letters: one index probe per stage, whatever their number.
create function public.giftcard_dead_stages() returns table (stage text)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with recursive dead as (
    (select j.stage from public.giftcard_jobs j where j.status = 'error' order by j.status, j.stage limit 1)
    union all
    select n.stage from dead d cross join lateral (
      select j.stage from public.giftcard_jobs j where j.status = 'error' and j.stage > d.stage
        order by j.status, j.stage limit 1) n)
  select d.stage from dead d order by d.stage limit 1000
$$;

-- Count jobs that are queued, running or dead, by stage and status, each up to p_cap.
create function public.giftcard_open_counts(p_cap integer) returns table (stage text, status text, jobs bigint)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with counts as (
    select d.stage, 'error' as status, n.jobs from public.giftcard_dead_stages() d cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j where j.status = 'error' and j.stage = d.stage limit p_cap) c) n
    union all
    select h.stage, 'queued', n.jobs from public.giftcard_queue_heads('{}', clock_timestamp()) h cross join lateral (
      select count(*) as jobs from (select from public.giftcard_jobs j
                                    where j.status = 'queued' and j.circuit = h.circuit limit p_cap) c) n
    union all
    select r.stage, 'running', count(*) from (select j.stage from public.giftcard_jobs j where j.status = 'running'
                                              limit p_cap) r group by r.stage)
  select c.stage, c.status, least(sum(c.jobs), p_cap)::bigint from counts c group by c.stage, c.status
    order by c.stage, c.status limit 1000
$$;
