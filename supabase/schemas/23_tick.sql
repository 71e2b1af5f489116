-- A tick's steps: begin, then advance until it has ended. A tick with nothing to do is one call; a batch of jobs is
-- two.
-- Without jit: where no index serves, forbidden scans cost so much on paper before PostgreSQL 18 that each plan would
-- be compiled. A tick never waits for infinity, which cannot be subtracted before PostgreSQL 17.

-- Revive dead letters whose revive_at has come: queued, with a whole new set of attempts, the oldest first, at most
-- p_limit. Return how many. More than ten at once are spread over five minutes, so as not to flood a vendor that has
-- just recovered.
create function public.giftcard_revive(p_limit integer default 100, p_now timestamptz default null) returns integer
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and revive_at is not null and revive_at <= v_now
     order by revive_at, id limit p_limit for update skip locked);
  v_count integer := cardinality(v_ids);
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = revivals + 1, revive_at = null, finished_at = null,
         updated_at = v_now,
         scheduled_at = v_now + case when v_count > 10
                                     then interval '5 minutes' * (array_position(v_ids, id) - 1) / v_count
                                     else interval '0' end
   where id = any (v_ids);
  return v_count;
end $$;

-- End a tick, unless something is due within p_linger_seconds and there is no reason to stop. Return why it stopped;
-- null: it goes on.
create function public.giftcard_end_tick(
  p_tick_id bigint, p_paused boolean, p_next_due_in double precision, p_stop text, p_linger_seconds double precision,
  p_now timestamptz)
returns text language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_stopped_because text := coalesce(p_stop, case when p_paused then 'paused'
                                                  when p_next_due_in is null or p_next_due_in > p_linger_seconds
                                                      then 'drained' end);
begin
  if v_stopped_because is not null then
    update public.giftcard_ticks set ended_at = p_now, stopped_because = v_stopped_because where id = p_tick_id;
  end if;
  return v_stopped_because;
end $$;

-- Return the schedules that a tick should plan now; null: none. A tick for a single stage or job plans nothing.
create function public.giftcard_schedules_for(p_tick_id bigint, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if not exists (select from public.giftcard_schedules where check_at is not null and check_at <= p_now) then
    return null;
  end if;
  return (select public.giftcard_due_schedules(100, p_now) from public.giftcard_ticks
           where id = p_tick_id and only_stage is null and only_job_id is null);
end $$;

-- Return what a begin returns when there is nothing to do: a second delivery, or a repeated call after the end.
create function public.giftcard_ended_tick(p_tick_id bigint, p_stopped_because text) returns json
language sql stable security invoker set search_path = '' as $$
  select json_build_object('tick_id', p_tick_id,
                           'duplicate', p_stopped_because = 'duplicate', 'paused', p_stopped_because = 'paused',
                           'revived', 0, 'jobs', '[]'::json, 'next_due_at', null, 'next_due_in', null,
                           'stopped_because', p_stopped_because)
$$;

-- Return whether an execution id was delivered before, and its tick is live or ended well. Locks the id.
create function public.giftcard_is_duplicate(p_execution_id text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('execution ' || p_execution_id, 0));
  return exists (
    select from public.giftcard_ticks
     where execution_id = p_execution_id and stopped_because is distinct from 'duplicate'
       and (ended_at is not null or live_until > p_now));
end $$;

-- Revive for a tick, which counts it. Return how many jobs.
create function public.giftcard_revive_for(p_tick_id bigint, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_revived integer := public.giftcard_revive(100, p_now);
begin
  if v_revived > 0 then
    update public.giftcard_ticks set revived = revived + v_revived where id = p_tick_id;
  end if;
  return v_revived;
end $$;

-- Begin a tick: record it, revive, claim. p_key: made by the caller, so that a repeated begin finds its tick and the
-- same leases. A second delivery of an execution id does no work while the first is live or ended well.
-- p_code_version, p_oldest_schema: the caller's version, and the oldest schema that it works with (null: any). GC426 if
-- they do not fit.
-- p_stages: {"email": 60}: the stages that this code can run, with the time to run of each in seconds. p_limits:
-- {"payment": 2}: runs at once in the whole fleet. p_linger_seconds: how long it may wait for work.
-- Return {tick_id, duplicate, paused, revived, jobs, next_due_at, next_due_in (seconds), stopped_because (null: it goes
-- on), schedules (due, for the caller to plan before it advances), maintenance (tasks to do after its jobs)}.
create function public.giftcard_begin_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_limit integer, p_live_seconds double precision,
  p_code_version integer, p_linger_seconds double precision default 0, p_execution_id text default null,
  p_only_stage text default null, p_only_job_id bigint default null, p_limits jsonb default '{}',
  p_oldest_schema integer default null, p_now timestamptz default null)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_id bigint;
  v_duplicate boolean;
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  c record;
begin
  perform public.giftcard_check_versions(p_code_version, p_oldest_schema);
  perform pg_advisory_xact_lock(hashtextextended(p_key::text, 0));
  select id, revived, stopped_because::text into v_id, v_revived, v_stopped_because
    from public.giftcard_ticks where key = p_key;
  if v_stopped_because is not null then
    return public.giftcard_ended_tick(v_id, v_stopped_because);
  elsif v_id is null then
    v_duplicate := p_execution_id is not null and public.giftcard_is_duplicate(p_execution_id, v_now);
    insert into public.giftcard_ticks
      (key, owner, source, execution_id, started_at, live_until, ended_at, stopped_because, stages, limits, only_stage,
       only_job_id, code_version)
    values (p_key, p_owner, p_source, p_execution_id, v_now, v_now + make_interval(secs => p_live_seconds),
            case when v_duplicate then v_now end, case when v_duplicate then 'duplicate' end, p_stages, p_limits,
            p_only_stage, p_only_job_id, p_code_version)
    returning id into v_id;
    if v_duplicate then
      return public.giftcard_ended_tick(v_id, 'duplicate');
    end if;
    v_revived := public.giftcard_revive_for(v_id, p_now);
  end if;
  c := public.giftcard_claim(v_id, p_key, p_limit, p_now);
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  v_schedules := public.giftcard_schedules_for(v_id, v_now);
  if c.claimed = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(v_id, c.paused, v_next_due_in, null, p_linger_seconds, v_now);
  end if;
  return json_build_object(
    'tick_id', v_id, 'duplicate', false, 'paused', c.paused, 'revived', v_revived, 'jobs', c.jobs,
    'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in, 'stopped_because', v_stopped_because,
    'schedules', coalesce(v_schedules, '[]'), 'maintenance', public.giftcard_due_maintenance(v_now));
end $$;

-- Advance a tick: settle what has finished, claim up to p_limit more, and end the tick when nothing runs (p_busy:
-- handlers still running here) and nothing is worth waiting for, or when the caller gives a reason to stop (p_stop:
-- limit, budget, shutdown). Safe to repeat. Return {settled, opened, closed, revived, jobs, paused, next_due_at,
-- next_due_in (seconds), stopped_because, schedules}.
create function public.giftcard_advance_tick(
  p_tick_id bigint, p_claim_key uuid, p_results jsonb, p_limit integer, p_busy integer,
  p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  v_scheduled boolean := true;  -- perhaps: giftcard_schedules_for checks
  s record;
  r record;
  c record;
begin
  if p_results <> '[]' then
    s := public.giftcard_settle(p_results, p_cooldown_seconds, p_now);
    -- In one statement: it counts, makes a repeated call wait for the first, and reads what the claim needs to know.
    update public.giftcard_ticks t
       set completed = completed + (s.sums ->> 'completed')::integer,
           lease_lost = lease_lost + (s.sums ->> 'lease_lost')::integer,
           retried = retried + coalesce((s.sums ->> 'retried')::integer, 0),
           errored = errored + coalesce((s.sums ->> 'errored')::integer, 0),
           snoozed = snoozed + coalesce((s.sums ->> 'snoozed')::integer, 0),
           released = released + coalesce((s.sums ->> 'released')::integer, 0),
           interrupted = interrupted + coalesce((s.sums ->> 'interrupted')::integer, 0)
     where t.id = p_tick_id
    returning t as tick, not exists (select from public.giftcard_stages where paused_at is not null)
                         and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed')
                         as unrestricted, exists (
        select from public.giftcard_schedules where check_at is not null and check_at <= v_now) as scheduled into r;
    if not found then
      perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
    end if;
    v_scheduled := r.scheduled;
  else
    select '[]'::json as settled, '{}'::text[] as opened, '{}'::text[] as closed into s;
    v_revived := public.giftcard_revive_for(p_tick_id, p_now);
  end if;
  if v_scheduled and p_stop is null then
    v_schedules := public.giftcard_schedules_for(p_tick_id, v_now);
  end if;
  if p_limit <= 0 and p_busy > 0 then
    select '[]'::json as jobs, 0 as claimed, false as paused, null::timestamptz as next_due_at into c;
  elsif p_results <> '[]' then
    -- By a later clock than the settle's: what is claimed now was claimed after each circuit that has just changed.
    c := public.giftcard_claim_for(r.tick, r.unrestricted, p_claim_key, p_limit, coalesce(p_now, clock_timestamp()));
  else
    c := public.giftcard_claim(p_tick_id, p_claim_key, p_limit, p_now);
  end if;
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  if c.claimed = 0 and p_busy = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(p_tick_id, c.paused, v_next_due_in, p_stop, p_linger_seconds, v_now);
  end if;
  return json_build_object(
    'settled', s.settled, 'opened', s.opened, 'closed', s.closed, 'revived', v_revived, 'jobs', c.jobs,
    'paused', c.paused, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', v_stopped_because, 'schedules', coalesce(v_schedules, '[]'));
end $$;
