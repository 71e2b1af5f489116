-- Recover: what a clock that went wrong has left behind. If the database's clock jumps forward by hours and back, some
-- rows hold times from the future. Nothing may wait for longer than its own delay, counted from now.

-- Return the time as far after p_now as p_at is after p_since; p_now, if that has no meaning.
create function public.giftcard_shifted(p_at timestamptz, p_since timestamptz, p_now timestamptz) returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_at) and isfinite(p_since) and p_at > p_since then p_now + (p_at - p_since)
              when p_at is not null then p_now end;
end $$;

-- Shift the times of a job that was changed in the future. Leases, retries and revivals keep their delays; a job that
-- has never run keeps the time that was asked for.
create function public.giftcard_recover_job(p_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set lease_expires_at = case when status <> 'running' then lease_expires_at
                                 when locked_at > p_now + interval '30 seconds'
                                 then public.giftcard_shifted(lease_expires_at, locked_at, p_now) else p_now end,
         locked_at = case status when 'running' then least(locked_at, p_now) else locked_at end,
         scheduled_at = case
           when status = 'error' then coalesce(public.giftcard_shifted(revive_at, finished_at, p_now), scheduled_at)
           when status = 'running' or run_no = 0 and trigger_type <> 'flow' and scheduled_at > updated_at
           then scheduled_at
           else least(scheduled_at, public.giftcard_shifted(scheduled_at, updated_at, p_now)) end,
         revive_at = case status when 'error' then public.giftcard_shifted(revive_at, finished_at, p_now)
                                 else revive_at end,
         finished_at = case status when 'error' then p_now else finished_at end,
         updated_at = p_now
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Shift the times of a circuit that lie in the future.
create function public.giftcard_recover_circuit(p_circuit text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_circuits
     set open_until = case when changed_at > p_now + interval '30 seconds'
                           then public.giftcard_shifted(open_until, changed_at, p_now) else p_now end,
         changed_at = least(changed_at, p_now)
   where circuit = p_circuit;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Have a schedule planned anew from now on: an occurrence that has its job already gets no other.
create function public.giftcard_recover_schedule(p_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_schedules
     set next_at = case when is_recurring or last_at is null then null else next_at end, check_at = p_now,
         version = case when version < 2147483647 then version + 1 else 1 end,
         last_at = least(last_at, p_now), last_missed_at = least(last_missed_at, p_now),
         last_skipped_at = least(last_skipped_at, p_now), updated_at = least(updated_at, p_now)
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Recover one row, of the kind job, circuit or schedule. One that refuses it is recorded, and ticks pass over it for
-- ten minutes.
create function public.giftcard_recover_row(p_kind text, p_id text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  case p_kind
    when 'job' then perform public.giftcard_recover_job(p_id::bigint, p_now);
    when 'circuit' then perform public.giftcard_recover_circuit(p_id, p_now);
    when 'schedule' then perform public.giftcard_recover_schedule(p_id::bigint, p_now);
  end case;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    p_kind, p_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
end $$;

-- Recover up to p_limit jobs of each status, that were changed in the future. Return how many were found.
create function public.giftcard_recover_jobs(p_limit integer, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_ahead timestamptz := p_now + interval '30 seconds';
  -- The longest lease, and a margin: an hour's was given by hand, or by a clock that went wrong.
  v_lease timestamptz := p_now + interval '24 hours 1 minute';
  v_skipped bigint[] := public.giftcard_skipped('job', p_now);
  v_ids bigint[];
begin
  v_ids := array(
    select id from public.giftcard_jobs
     where status = 'running' and (locked_at > v_ahead or coalesce(lease_expires_at, '-infinity') > v_lease)
       and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  v_ids := v_ids || array(
    select id from public.giftcard_jobs
     where status = 'queued' and updated_at > v_ahead and isfinite(updated_at) and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  v_ids := v_ids || array(
    select id from public.giftcard_jobs
     where status = 'error' and finished_at > v_ahead and isfinite(finished_at) and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  perform public.giftcard_recover_row('job', i::text, p_now) from unnest(v_ids) i;
  return cardinality(v_ids);
end $$;

-- Recover circuits and schedules with times in the future.
create function public.giftcard_recover_others(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ahead timestamptz := p_now + interval '30 seconds';
  v_skipped bigint[] := public.giftcard_skipped('schedule', p_now);
  v_circuits text[] := array(
    select circuit from public.giftcard_circuits
     where changed_at > v_ahead or open_until > p_now + interval '24 hours 1 minute'
     order by circuit limit 5000 for update skip locked);
  v_schedules bigint[] := array(
    select id from public.giftcard_schedules
     where paused_at is null and check_at is not null and id <> all (v_skipped)
       and (greatest(last_at, last_missed_at, last_skipped_at, updated_at) > v_ahead or check_at = 'infinity'
            or check_at > p_now + interval '2 hours' and check_at > next_at + interval '2 hours')
     order by id limit 5000 for update skip locked);
begin
  perform public.giftcard_recover_row('circuit', c, p_now) from unnest(v_circuits) c;
  perform public.giftcard_recover_row('schedule', i::text, p_now) from unnest(v_schedules) i;
end $$;

-- Shift the times of maintenance tasks, counters and ticks that lie in the future.
create function public.giftcard_recover_ticks(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_maintenance_tasks set last_at = '-infinity' where last_at > p_now;
  update public.giftcard_counter_watermarks set until = p_now - interval '10 seconds' where until > p_now;
  update public.giftcard_ticks
     set live_until = public.giftcard_shifted(live_until, started_at, p_now), started_at = least(started_at, p_now),
         ended_at = least(ended_at, p_now), scanned_at = least(scanned_at, p_now)
   where id = any (array(select id from public.giftcard_ticks order by id desc limit 200))
     and greatest(started_at, ended_at, scanned_at) > p_now + interval '30 seconds';
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', 'recovery', public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Recover, if anything shows that the clock went wrong, or that a time was set by hand that nothing can wait for: a
-- tick in the future, a lease, a circuit or a check that ends far away. Each tick's begin looks. Row by row: one row
-- that refuses it stops no other.
create function public.giftcard_recover(p_tick_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  if exists (select from public.giftcard_jobs
              where status = 'running'
                and coalesce(lease_expires_at, '-infinity') > p_now + interval '24 hours 1 minute')
     or exists (select from public.giftcard_circuits
                 where (failures > 0 or state <> 'closed') and open_until > p_now + interval '24 hours 1 minute')
     or exists (select from public.giftcard_schedules where check_at = 'infinity' and paused_at is null)
     or exists (select from (select started_at, ended_at, scanned_at from public.giftcard_ticks where id < p_tick_id
                              order by id desc limit 20) t
                 where greatest(t.started_at, t.ended_at, t.scanned_at) > p_now + interval '30 seconds') then
    if public.giftcard_recover_jobs(5000, p_now) < 5000 then
      perform public.giftcard_recover_others(p_now);
      perform public.giftcard_recover_ticks(p_now);
    end if;
  end if;
end $$;
