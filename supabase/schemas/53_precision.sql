-- Precision: how long after its time each run began.

-- The newest runs, of whatever jobs.
create index giftcard_job_history_finished on public.giftcard_job_history (finished_at);

-- Return start delays by stage, of the newest 10,000 runs that ended within p_window_seconds: [{stage, runs, p50_ms,
-- p95_ms, max_ms}]. Runs that never began, and those started before their time on request, do not count.
create function public.giftcard_precision(
  p_window_seconds double precision default 3600, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'stage', d.stage, 'runs', d.runs, 'p50_ms', round(d.ms[1]), 'p95_ms', round(d.ms[2]), 'max_ms', round(d.ms[3]))
            order by d.stage), '[]')
      from (
        select h.stage, count(*) as runs,
               percentile_disc(array[0.5, 0.95, 1]) within group (
                 order by public.giftcard_milliseconds(h.scheduled_at, h.started_at)) as ms
          from (select * from public.giftcard_job_history
                where finished_at > v_now - make_interval(secs => p_window_seconds)
                 order by finished_at desc limit 10000) h
         where h.result <> 'RELEASED' and isfinite(h.scheduled_at) and isfinite(h.started_at)
           and h.started_at >= h.scheduled_at
         group by h.stage) d);
end $$;
