-- Waking: who wakes a tick. An enqueue does, and a tick that leaves work or knows when the next is due. A wake that
-- fails is counted and fails nothing else. A table that someone has locked is not waited for longer than 100 ms.

-- Count a wake that could not be sent.
create function public.giftcard_count_failed_wake(p_error text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_wakes
     set sent_at = p_now, failed_at = p_now, failed = failed + 1, error = p_error, due_at = null
   where id = any (array(select w.id from public.giftcard_wakes w where w.id = 1 for update skip locked));
exception when others then
  null;  -- a role that may only insert jobs, a database that only reads: the clock calls within the minute
end $$;

-- Wake a tick by pg_net, if fewer than p_ticks wait for jobs. pg_net sends it after the commit, and never after a
-- rollback. Return whether a wake was queued.
create function public.giftcard_send_wake(
  p_ticks integer default 1, p_catches_up boolean default false, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off
set lock_timeout = '100ms' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  w public.giftcard_wakes;
  v_secret text;
begin
  select * into w from public.giftcard_wakes where id = 1;
  if w.url is null or not public.giftcard_take_wake(p_ticks, p_catches_up, v_now) then
    return false;
  end if;
  select s.decrypted_secret into v_secret from vault.decrypted_secrets s where s.name = w.secret_name;
  if v_secret is null then
    perform public.giftcard_refuse('GC404', format('Vault has no secret named %s', w.secret_name));
  end if;
  perform net.http_post(
    url := w.url, timeout_milliseconds := 5000,
    headers := jsonb_build_object('Authorization', 'Bearer ' || v_secret, 'X-Giftcard-Wake', '1'));
  return true;
exception when others then
  perform public.giftcard_count_failed_wake(public.giftcard_error_text(sqlstate, sqlerrm), v_now);
  return false;
end $$;

-- Send the wake that was planned, once it is due. pg_cron calls this each second.
create function public.giftcard_send_due_wake(p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  if not exists (select from public.giftcard_wakes where id = 1 and url is not null and due_at <= v_now) then
    return false;
  elsif public.giftcard_waiting_ticks(v_now) > 0 then
    -- That tick takes what is due, and plans anew when it ends.
    update public.giftcard_wakes set due_at = null
     where id = any (array(select w.id from public.giftcard_wakes w where w.id = 1 for update skip locked));
    return false;
  end if;
  return public.giftcard_send_wake(p_now => v_now);
end $$;

-- Wake a tick for jobs that a transaction has queued, at its commit.
create function public.giftcard_wake_at_commit() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_send_wake();
  return null;
end $$;

-- Deferred, so that the row of wakes is locked for the moment of a commit only; and once a transaction, for the first
-- job that is due within a minute: the condition notes that in a setting. A tick names itself there, as it goes on
-- anyway. giftcard_start_waking enables both. A run's end is no reason: its tick plans the retry.
create constraint trigger giftcard_jobs_wake_after_insert after insert on public.giftcard_jobs
  deferrable initially deferred
  for each row when (case when new.status = 'queued' and new.scheduled_at <= now() + interval '1 minute'
                               and coalesce(current_setting('giftcard.wakes', true), '') = ''
                          then set_config('giftcard.wakes', 'transaction', true) <> '' else false end)
  execute function public.giftcard_wake_at_commit();
create constraint trigger giftcard_jobs_wake_after_update after update of scheduled_at on public.giftcard_jobs
  deferrable initially deferred
  for each row when (case when new.status = 'queued' and old.status <> 'running'
                               and new.scheduled_at <= now() + interval '1 minute'
                               and coalesce(current_setting('giftcard.wakes', true), '') = ''
                          then set_config('giftcard.wakes', 'transaction', true) <> '' else false end)
  execute function public.giftcard_wake_at_commit();
alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_insert;
alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_update;

-- Wake a tick for another one, in its way (p_wake: see giftcard_ticks.wake). Return whether the caller is to call its
-- own address; pg_net needs no caller.
create function public.giftcard_wake_next(
  p_wake jsonb, p_ticks integer, p_catches_up boolean, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set lock_timeout = '100ms' as $$
begin
  if p_wake ->> 'mode' = 'pg_net' then
    perform public.giftcard_send_wake(p_ticks, p_catches_up, p_now);
    return false;
  end if;
  return public.giftcard_take_wake(p_ticks, p_catches_up, p_now);
exception when others then
  perform public.giftcard_count_failed_wake(public.giftcard_error_text(sqlstate, sqlerrm), p_now);
  return false;
end $$;

-- Wake a helper for a tick that has found as many jobs as it could take: there may be more. Return 0 if the caller is
-- to call its own address, else null.
create function public.giftcard_wake_helper(
  p_wake jsonb, p_claimed integer, p_limit integer, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if p_limit > 0 and p_claimed >= p_limit and (p_wake ->> 'ticks')::integer > 1 then
    return case when public.giftcard_wake_next(p_wake, (p_wake ->> 'ticks')::integer, true, p_now) then 0 end;
  end if;
  return null;
end $$;

-- Wake the next tick for one that has ended, or plan it. At once, if it has left due jobs at its limit or budget; what
-- a drained tick leaves is held by others. For what is due later, pg_net has the plan. Without it one tick is woken
-- now, if that one and one more can wait for so long. p_started: it has started jobs. One that has not keeps to the
-- limit of a minute: what it leaves may be held by others, too. Return 0 if the caller is to call its own address now,
-- 1 if it is to ask again (giftcard_take_wake) after a second, and null if neither.
create function public.giftcard_wake_after(
  p_wake jsonb, p_stopped_because text, p_started boolean, p_next_due_at timestamptz, p_now timestamptz)
returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_by_pg_net boolean := p_wake ->> 'mode' = 'pg_net';
  v_stops boolean := p_stopped_because in ('limit', 'budget', 'shutdown');
  v_ahead double precision := case when v_by_pg_net then 0 else least(60, 2 * (p_wake ->> 'seconds')::float8) end;
  v_leaves boolean := coalesce(v_stops and p_next_due_at <= p_now + make_interval(secs => v_ahead), false);
  v_ticks integer := case when p_next_due_at <= p_now then (p_wake ->> 'ticks')::integer else 1 end;
begin
  if v_leaves and public.giftcard_wake_next(p_wake, v_ticks, p_started, p_now) then
    return 0;
  elsif v_by_pg_net then
    if not v_leaves then
      perform public.giftcard_plan_wake(
        case when p_next_due_at > p_now and isfinite(p_next_due_at) then p_next_due_at end, p_now, true);
    end if;
    return null;
  end if;
  -- A job that comes less than a second after a wake cannot wake: a tick that ends so soon is to ask for it.
  return case when p_started and (v_leaves or p_stopped_because = 'limit' and public.giftcard_is_woken_just_now(p_now))
                   and public.giftcard_waiting_ticks(p_now) < v_ticks then 1 end;
end $$;

-- Enqueue jobs as giftcard_enqueue does, and decide in the same call whether the caller is to wake a tick. Return
-- {jobs, wake}. The decision fails no enqueue.
create function public.giftcard_enqueue_and_wake(
  p_jobs jsonb, p_replace boolean default false, p_by text default null, p_commits boolean default false,
  p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_jobs json := public.giftcard_enqueue(p_jobs, p_replace, p_by, p_commits, p_now);
begin
  return json_build_object('jobs', v_jobs, 'wake', exists (
    select from public.giftcard_jobs
     where id = any (array(select (j ->> 'id')::bigint from json_array_elements(v_jobs) j))
       and status = 'queued' and scheduled_at <= v_now + interval '1 minute')
    and public.giftcard_wake_next('{"mode": "url"}', 1, false, v_now));
end $$;
