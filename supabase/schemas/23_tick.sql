-- A tick's steps: begin, then advance until it has ended. A tick with nothing to do is one call; a batch of jobs is
-- two.
-- Without jit: where no index serves, forbidden scans cost so much on paper before PostgreSQL 18 that each plan would
-- be compiled. A tick never waits for infinity, which cannot be subtracted before PostgreSQL 17.

-- Revive these dead letters of p_batch, whose rows the caller holds: queued, with a whole new set of attempts. A batch
-- of more than ten is spread over five minutes, so as not to flood a vendor that has just recovered.
create function public.giftcard_revive_locked(p_ids bigint[], p_batch bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = least(revivals + 1, 1000000), revive_at = null, finished_at = null,
         updated_at = p_now,
         scheduled_at = p_now + case when cardinality(p_batch) > 10
                                     then interval '5 minutes' * (array_position(p_batch, id) - 1)
                                          / cardinality(p_batch)
                                     else interval '0' end
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Revive dead letters whose revive_at has come, the oldest first, at most p_limit. Return how many. p_one_by_one: one
-- that cannot be revived is put aside.
create function public.giftcard_revive(
  p_limit integer default 100, p_now timestamptz default null, p_one_by_one boolean default false) returns integer
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_skipped bigint[] := public.giftcard_skipped('job', v_now);
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and revive_at is not null and revive_at <= v_now and id <> all (v_skipped)
     order by revive_at, id limit p_limit for update skip locked);
begin
  if v_ids = '{}' then
    return 0;
  elsif p_one_by_one then
    return public.giftcard_revive_each(v_ids, v_now);
  end if;
  perform public.giftcard_revive_locked(v_ids, v_ids, v_now);
  return cardinality(v_ids);
end $$;

-- End a tick, unless something is due within p_linger_seconds and there is no reason to stop. A tick that does not wait
-- has nothing to wait for: others hold what is due now. p_wake: as in giftcard_ticks.wake. Return why it stopped (null:
-- it goes on), and as wake_in what giftcard_wake_after does.
create function public.giftcard_end_tick(
  p_tick_id bigint, p_paused boolean, p_next_due_at timestamptz, p_stop text, p_linger_seconds double precision,
  p_now timestamptz, p_wake jsonb, out stopped_because text, out wake_in integer)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare v_started boolean;
begin
  stopped_because := coalesce(p_stop, case when p_paused then 'paused'
    when p_linger_seconds <= 0 or p_next_due_at is null or not isfinite(p_next_due_at)
         or extract(epoch from p_next_due_at - p_now) > p_linger_seconds then 'drained' end);
  if p_wake is not null and p_stop is null and stopped_because = 'drained' and p_linger_seconds > 0
     and public.giftcard_is_woken_often(p_now) then
    stopped_because := null;
  end if;
  if stopped_because is not null then
    update public.giftcard_ticks set ended_at = p_now, stopped_because = giftcard_end_tick.stopped_because
     where id = p_tick_id returning started > 0 into v_started;
    if p_wake is not null then
      wake_in := public.giftcard_wake_after(p_wake, stopped_because, v_started, p_next_due_at, p_now);
    end if;
  end if;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Record that a tick has failed, and why. A tick that has ended stays as it is. p_key: that of its begin, which may
-- have failed before it was recorded.
create function public.giftcard_fail_tick(
  p_key uuid, p_owner text, p_source text, p_error text, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  insert into public.giftcard_ticks as t
    (key, owner, source, started_at, live_until, ended_at, stopped_because, error, stages)
  values (p_key, p_owner, p_source, v_now, v_now, v_now, 'failed', left(p_error, 500), '{}')
  on conflict (key) do update
    set ended_at = excluded.ended_at, stopped_because = excluded.stopped_because, error = excluded.error
    where t.ended_at is null;
end $$;

-- Return the schedules that a tick should plan now; null: none. A tick for a single stage or job plans nothing.
-- p_one_by_one: one that cannot be read is paused.
create function public.giftcard_schedules_for(p_tick_id bigint, p_one_by_one boolean, p_now timestamptz) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.giftcard_schedules where check_at is not null and check_at <= p_now) then
    return null;
  elsif p_one_by_one then
    perform public.giftcard_pause_unreadable_schedules(p_now);
  end if;
  return (
    select d.schedules from public.giftcard_ticks t
     cross join lateral (select public.giftcard_due_schedules(100, p_now) as schedules) d
     where t.id = p_tick_id and t.only_stage is null and t.only_job_id is null
       and json_array_length(d.schedules) > 0);
end $$;

-- Return what a begin returns when there is nothing to do: a pause, a second delivery, a repeated call after the end.
create function public.giftcard_ended_tick(p_tick_id bigint, p_stopped_because text, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return json_build_object(
    'tick_id', p_tick_id, 'duplicate', p_stopped_because = 'duplicate', 'paused', p_stopped_because = 'paused',
    'revived', 0, 'jobs', '[]'::json, 'next_due_at', null, 'next_due_in', null, 'stopped_because', p_stopped_because,
    'maintenance', case when p_stopped_because = 'duplicate' then '[]'::json
                        else public.giftcard_due_maintenance(p_now) end);
end $$;

-- Return whether an execution id was delivered before, and its tick is live or ended without failing. Locks the id.
create function public.giftcard_is_duplicate(p_execution_id text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('execution ' || p_execution_id, 0));
  return exists (
    select from public.giftcard_ticks
     where execution_id = p_execution_id
       and (public.giftcard_ended_well(ended_at, stopped_because) or ended_at is null and live_until > p_now));
end $$;

-- Revive for a tick that revives, which counts it. p_one_by_one: a tick's row that refuses the count is recorded, and
-- stays. Return how many jobs.
create function public.giftcard_revive_for(p_tick_id bigint, p_one_by_one boolean, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_revived integer := 0;
begin
  if (select revives from public.giftcard_ticks where id = p_tick_id) then
    v_revived := public.giftcard_revive(100, p_now, p_one_by_one);
  end if;
  if v_revived > 0 then
    begin
      update public.giftcard_ticks set revived = least(revived::bigint + v_revived, 2147483647) where id = p_tick_id;
    exception when others then
      if not p_one_by_one or public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm),
                                           coalesce(p_now, clock_timestamp()));
    end;
  end if;
  return v_revived;
end $$;

-- Record a tick that begins, as giftcard_begin_tick takes it. It has ended already when it is paused, or a second
-- delivery of its execution id.
create function public.giftcard_record_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_live_seconds double precision, p_code_version integer,
  p_execution_id text, p_only_stage text, p_only_job_id bigint, p_limits jsonb, p_tenant_weights jsonb,
  p_paused boolean, p_revives boolean, p_wake jsonb, p_now timestamptz, out tick_id bigint, out stopped_because text)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_execution_id is not null and public.giftcard_is_duplicate(p_execution_id, p_now) then
    stopped_because := 'duplicate';
  elsif p_paused then
    stopped_because := 'paused';
  end if;
  insert into public.giftcard_ticks as t
    (key, owner, source, execution_id, started_at, live_until, ended_at, stopped_because, stages, limits,
     tenant_weights, only_stage, only_job_id, revives, code_version, wake)
  values (p_key, p_owner, p_source, p_execution_id, p_now, p_now + make_interval(secs => p_live_seconds),
          case when stopped_because is not null then p_now end, stopped_because, p_stages, p_limits,
          p_tenant_weights, p_only_stage, p_only_job_id, p_revives, p_code_version, p_wake)
  returning t.id into tick_id;
end $$;

-- Begin a tick: record it, revive, claim. p_key: made by the caller, so that a repeated begin finds its tick and the
-- same leases. A second delivery of an execution id does no work while the first is live or ended well.
-- p_code_version, p_oldest_schema: the caller's version, and the oldest schema that it works with (null: any). GC426 if
-- they do not fit.
-- p_stages: {"email": 60}: the stages that this code can run, with the time to run of each in seconds. p_limits:
-- {"payment": {"runs": 2, "per_second": 10, "burst": 20}}: in the whole fleet. p_tenant_weights: {"acme": 3}: jobs of
-- a tenant for one of another. p_linger_seconds: how long it may wait for work. p_paused: it only
-- does its maintenance. p_revives: whether dead letters revive at all. p_without_circuit: stages whose circuits close.
-- p_one_by_one: after a call that has failed; each row that work fails on is put aside, with the reason. p_wake: as in
-- giftcard_ticks.wake; the same of each advance.
-- Return {tick_id, duplicate, paused, revived, closed (circuits), jobs, next_due_at, next_due_in (seconds),
-- stopped_because (null: it goes on), schedules (due, for the caller to plan before it advances), maintenance (tasks to
-- do after its jobs), wake_in (the caller is to wake another tick: giftcard_wake_after)}.
create function public.giftcard_begin_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_limit integer, p_live_seconds double precision,
  p_code_version integer, p_linger_seconds double precision default 0, p_execution_id text default null,
  p_only_stage text default null, p_only_job_id bigint default null, p_limits jsonb default '{}',
  p_oldest_schema integer default null, p_now timestamptz default null, p_paused boolean default false,
  p_revives boolean default true, p_without_circuit text[] default '{}', p_one_by_one boolean default false,
  p_tenant_weights jsonb default '{}', p_wake jsonb default null)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_id bigint;
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  v_closed text[] := '{}'::text[];
  v_wake_in integer;
  c record;
  e record;
begin
  perform public.giftcard_check_versions(p_code_version, p_oldest_schema);
  if p_one_by_one then
    set constraints all immediate;  -- an error at the commit would be no row's
  end if;
  perform pg_advisory_xact_lock(hashtextextended(left(p_key::text, 24), 0));  -- as giftcard_claim
  select id, revived, stopped_because::text into v_id, v_revived, v_stopped_because
    from public.giftcard_ticks where key = p_key;
  if v_id is null then
    c := public.giftcard_record_tick(p_key, p_owner, p_source, p_stages, p_live_seconds, p_code_version, p_execution_id,
                                     p_only_stage, p_only_job_id, p_limits, p_tenant_weights, p_paused, p_revives,
                                     p_wake, v_now);
    v_id := c.tick_id;
    v_stopped_because := c.stopped_because;
    if v_stopped_because is null then
      perform public.giftcard_recover(v_id, v_now);
      v_closed := public.giftcard_close_circuits_of(p_without_circuit, p_one_by_one, v_now);
      v_revived := public.giftcard_revive_for(v_id, p_one_by_one, p_now);
    end if;
  end if;
  if v_stopped_because is not null then
    return public.giftcard_ended_tick(v_id, v_stopped_because, v_now);
  end if;
  c := public.giftcard_claim(v_id, p_key, p_limit, p_now, p_one_by_one);
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  v_schedules := public.giftcard_schedules_for(v_id, p_one_by_one, v_now);
  if c.claimed = 0 and v_schedules is null and not c.late then
    e := public.giftcard_end_tick(v_id, c.paused, c.next_due_at, null, p_linger_seconds, v_now, p_wake);
    v_stopped_because := e.stopped_because;
    v_wake_in := e.wake_in;
  elsif p_wake is not null then
    v_wake_in := public.giftcard_wake_helper(p_wake, c.claimed, p_limit, v_now);
  end if;
  return json_build_object(
    'tick_id', v_id, 'duplicate', false, 'paused', c.paused, 'revived', v_revived, 'jobs', c.jobs,
    'closed', v_closed, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', v_stopped_because, 'schedules', coalesce(v_schedules, '[]'),
    'maintenance', public.giftcard_due_maintenance(v_now), 'wake_in', v_wake_in);
end $$;
