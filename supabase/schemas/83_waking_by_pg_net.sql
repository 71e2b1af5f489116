-- Waking by pg_net, on Supabase: who queues a job that is due queues a call of the cron endpoint, too. What is due
-- later has a job of pg_cron. GIFTCARD_WAKE=pg_net lets ticks plan it. Other platforms wake by their own address.

-- Start waking, or change what is called: see giftcard_start_clock. Each second pg_cron sends the wake that is due
-- (before pg_cron 1.5, which knows no seconds, each minute).
create function public.giftcard_start_waking(
  p_url text, p_secret_name text default 'giftcard_cron_secret', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_url text := public.giftcard_check_call(p_url, p_secret_name) || '/api/cron/giftcard-jobs';
  v_schedule text := '1 seconds';
begin
  begin
    perform cron.schedule('giftcard-wake', v_schedule, 'select public.giftcard_send_due_wake()');
  exception when others then
    v_schedule := '* * * * *';
    perform cron.schedule('giftcard-wake', v_schedule, 'select public.giftcard_send_due_wake()');
  end;
  -- By the second, even two days would be many.
  perform cron.schedule('giftcard-wake-prune', '17 * * * *',
    'delete from cron.job_run_details where start_time < now() - interval ''1 hour'' and jobid in '
    '(select jobid from cron.job where jobname in (''giftcard-wake'', ''giftcard-wake-prune''))');
  update public.giftcard_wakes
     set url = v_url, secret_name = p_secret_name, started_at = coalesce(p_now, clock_timestamp()), due_at = null
   where id = 1;
  alter table public.giftcard_jobs enable trigger giftcard_jobs_wake_after_insert;
  alter table public.giftcard_jobs enable trigger giftcard_jobs_wake_after_update;
  return jsonb_build_object('waking', 'giftcard-wake', 'schedule', v_schedule, 'calls', v_url);
end $$;

-- Stop waking. The clock goes on. With p_dry_run only count its jobs of pg_cron.
create function public.giftcard_stop_waking(p_dry_run boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_jobs bigint[] := '{}'::bigint[];
begin
  if to_regnamespace('cron') is not null then
    v_jobs := array(select j.jobid from cron.job j where j.jobname in ('giftcard-wake', 'giftcard-wake-prune'));
  end if;
  if not p_dry_run then
    alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_insert;
    alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_update;
    update public.giftcard_wakes set url = null, secret_name = null, started_at = null, due_at = null where id = 1;
    perform cron.unschedule(j) from unnest(v_jobs) j;
    if cardinality(v_jobs) > 0 then
      delete from cron.job_run_details where jobid = any (v_jobs);
    end if;
  end if;
  return jsonb_build_object('dry_run', p_dry_run, 'jobs', cardinality(v_jobs));
end $$;

-- Return what the doctor and the status show of waking. Ages are seconds before p_now. pg_net: giftcard_start_waking
-- has been called; followed: a tick has followed the last wake; lost counts the last one, too.
create function public.giftcard_waking(p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select jsonb_build_object(
      'pg_net', w.url is not null, 'due_at', w.due_at,
      'age', public.giftcard_milliseconds(w.sent_at, v_now) / 1000.0,
      'followed', not public.giftcard_is_wake_lost(w.sent_at, v_now),
      'in_minute', case when w.minute = date_trunc('minute', v_now) then w.in_minute else 0 end,
      'sent', w.sent, 'lost', w.lost + public.giftcard_is_wake_lost(w.sent_at, v_now)::integer,
      'held_back', w.held_back, 'failed', w.failed,
      'error', case when w.failed_at >= w.sent_at then w.error end)
      from public.giftcard_wakes w where w.id = 1);
end $$;
