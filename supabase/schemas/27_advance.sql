-- Advance: the steps of a tick after its begin.

-- Add what a settle did to the counts of a tick's row, which makes a repeated call wait for the first. Return the row.
-- GC404 for no such tick.
create function public.giftcard_count_in_tick(p_tick_id bigint, p_sums jsonb) returns public.giftcard_ticks
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_tick public.giftcard_ticks;
begin
  update public.giftcard_ticks t
     set completed = completed + (p_sums ->> 'completed')::integer,
         lease_lost = lease_lost + (p_sums ->> 'lease_lost')::integer,
         retried = retried + coalesce((p_sums ->> 'retried')::integer, 0),
         errored = errored + coalesce((p_sums ->> 'errored')::integer, 0),
         snoozed = snoozed + coalesce((p_sums ->> 'snoozed')::integer, 0),
         released = released + coalesce((p_sums ->> 'released')::integer, 0),
         interrupted = interrupted + coalesce((p_sums ->> 'interrupted')::integer, 0)
   where t.id = p_tick_id
  returning t.* into v_tick;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  return v_tick;
end $$;

-- Return whether the last claim of a tick had this key: a call that is repeated after a lost reply brings what the
-- first one claimed, even if no more is wanted by now.
create function public.giftcard_has_claimed(p_tick_id bigint, p_claim_key uuid) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return exists (
    select from public.giftcard_ticks where id = p_tick_id and claim_key = p_claim_key and claim_ids <> '{}');
end $$;

-- Advance a tick: settle what has finished, claim up to p_limit more, and end the tick when nothing runs (p_busy:
-- handlers still running here) and nothing is worth waiting for, or when the caller gives a reason to stop (p_stop:
-- limit, budget, shutdown). Safe to repeat, also without the results, which may wait for a later call: the claim's key
-- is locked, as in giftcard_claim. p_plan: whether the caller plans schedules; p_one_by_one: as in
-- giftcard_begin_tick. Return {settled, opened, closed, revived, jobs, paused, next_due_at, next_due_in (seconds),
-- stopped_because, schedules, wake_in}: as giftcard_begin_tick does; settled null: all is settled that was given. The
-- jobs that a settle queues wake no other tick: they have this one, unless it stops. p_step, p_claimed: what
-- giftcard_step has done already in this call, {settled, opened, closed}, and the ids that it has claimed.
create function public.giftcard_advance_tick(
  p_tick_id bigint, p_claim_key uuid, p_results jsonb, p_limit integer, p_busy integer,
  p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null, p_plan boolean default true,
  p_one_by_one boolean default false, p_wake jsonb default null, p_step jsonb default null,
  p_claimed bigint[] default '{}') returns json
language plpgsql volatile security invoker
-- Someone else's open transaction may hold a row: it must not hold up the other results.
set search_path = '' set enable_seqscan = off set jit = off set lock_timeout = '2s' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_revived integer := 0;
  v_next_due_in double precision;
  v_schedules json;
  v_tick public.giftcard_ticks;
  v_busy integer := p_busy;
  s record;  -- what was settled
  c record; e record;  -- what is claimed, and the end
begin
  if p_one_by_one then set constraints all immediate; end if;  -- an error at the commit would be no row's
  if p_wake is not null and p_stop is null then perform set_config('giftcard.wakes', 'tick', true); end if;
  if p_results <> '[]' then perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0)); end if;
  if p_results <> '[]' and p_one_by_one then
    s := public.giftcard_settle_each(p_results, p_cooldown_seconds, p_now);
    perform public.giftcard_try_count_in_tick(p_tick_id, s.sums, v_now);
    v_busy := v_busy + s.refused;  -- the caller sends them again
  elsif p_results <> '[]' then
    s := public.giftcard_settle(p_results, p_cooldown_seconds, p_now);
    v_tick := public.giftcard_count_in_tick(p_tick_id, s.sums);
  elsif p_step is not null then
    select x.* into s from jsonb_to_record(p_step) x(settled json, opened text[], closed text[]);
    select * into v_tick from public.giftcard_ticks where id = p_tick_id;
  else
    select '[]'::json as settled, '{}'::text[] as opened, '{}'::text[] as closed into s;
    v_revived := public.giftcard_revive_for(p_tick_id, p_one_by_one, p_now);
  end if;
  if p_stop is null and p_plan then
    v_schedules := public.giftcard_schedules_for(p_tick_id, p_one_by_one, v_now);
  end if;
  if p_limit <= 0 and v_busy > 0 and not public.giftcard_has_claimed(p_tick_id, p_claim_key) then
    select '[]'::json as jobs, 0 as claimed, false as paused, null::timestamptz as next_due_at, false as late into c;
  elsif v_tick.id is not null then
    -- By a later clock than the settle's: what is claimed now was claimed after each circuit that just changed.
    c := public.giftcard_claim_for(
      v_tick, p_claim_key, p_limit - cardinality(p_claimed), false, coalesce(p_now, clock_timestamp()), p_claimed);
  else
    c := public.giftcard_claim(p_tick_id, p_claim_key, p_limit, p_now, p_one_by_one);
  end if;
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  if c.claimed = 0 and v_busy = 0 and v_schedules is null and not c.late then
    e := public.giftcard_end_tick(p_tick_id, c.paused, c.next_due_at, p_stop, p_linger_seconds, v_now, p_wake);
  else
    select null::text as stopped_because, public.giftcard_wake_helper(p_wake, c.claimed, p_limit, v_now) as wake_in
      into e;
  end if;
  return json_build_object(
    'settled', s.settled, 'opened', s.opened, 'closed', s.closed, 'revived', v_revived, 'jobs', c.jobs,
    'paused', c.paused, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', e.stopped_because, 'schedules', coalesce(v_schedules, '[]'), 'wake_in', e.wake_in);
end $$;
