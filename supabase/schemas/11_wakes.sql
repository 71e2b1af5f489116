-- Wakes: calls of the cron endpoint between two calls of the clock, so that a job need not wait for the minute. One row
-- decides for the whole fleet: at most one wake a second and twenty a minute, and none while a tick waits for jobs.

create table public.giftcard_wakes (
  id integer not null default 1,
  url text,
  secret_name text,
  started_at timestamptz,
  due_at timestamptz,
  sent_at timestamptz,
  minute timestamptz,
  in_minute integer not null default 0,
  sent bigint not null default 0,
  lost bigint not null default 0,
  held_back bigint not null default 0,
  failed bigint not null default 0,
  failed_at timestamptz,
  error text,
  constraint giftcard_wakes_pkey primary key (id),
  constraint giftcard_wakes_has_one_row check (id = 1)
) with (fillfactor = 50);
insert into public.giftcard_wakes (id) values (1);

comment on table public.giftcard_wakes is
  'One row: when the fleet was last woken, when it is to be woken next, and how often.';
comment on column public.giftcard_wakes.url is
  'What pg_net calls (giftcard_start_waking); null: the database itself wakes no tick.';
comment on column public.giftcard_wakes.secret_name is 'The name of the secret in Vault that is CRON_SECRET.';
comment on column public.giftcard_wakes.due_at is 'When the database wakes the next tick, if none waits for jobs then.';
comment on column public.giftcard_wakes.in_minute is 'Wakes in the minute `minute`.';
comment on column public.giftcard_wakes.lost is 'Wakes that no tick followed within ten seconds.';
comment on column public.giftcard_wakes.held_back is 'Wakes that the limit of a minute put off.';
comment on column public.giftcard_wakes.failed is 'Wakes that could not be sent, the last one for the reason `error`.';

-- What a tick states about waking when it begins: {"mode": "url" or "pg_net", "ticks": how many may run side by side,
-- "seconds": how long it starts jobs and waits for them, "limit": how many it starts}. null: waking is off.
alter table public.giftcard_ticks add column wake jsonb;
comment on column public.giftcard_ticks.wake is
  'How long it waits for jobs and how many it starts, by which a wake is spared; null: waking is off.';

-- Return how many live ticks start jobs: within their time, and below their limit. Of the newest 200: a fleet may have
-- a hundred (GIFTCARD_FLEET_TICKS). One whose row makes no sense does not count.
create function public.giftcard_waiting_ticks(p_now timestamptz) returns integer
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*)::integer from (
      select ended_at, live_until, only_stage, only_job_id, started, started_at, wake
        from public.giftcard_ticks order by id desc limit 200) t
     where t.ended_at is null and t.live_until > p_now and t.wake is not null
       and t.only_stage is null and t.only_job_id is null
       and t.started < public.giftcard_limit_number(t.wake, 'limit', 1e9)
       and t.started_at + interval '1 second' * public.giftcard_limit_number(t.wake, 'seconds', 86400)::float8 > p_now);
end $$;

-- Return whether the application has woken a tick less than a second ago: a job that comes now cannot wake, and would
-- wait for the clock, unless a tick stays for it. Where the database wakes, that wake is planned. A time far ahead of
-- p_now was written while a clock went wrong.
create function public.giftcard_is_woken_just_now(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (
    select from public.giftcard_wakes
     where id = 1 and url is null and sent_at > p_now - interval '1 second'
       and sent_at < p_now + interval '10 seconds');
end $$;

-- Return whether a tick without work is to wait for the next job: because wakes are so frequent (ten in this minute)
-- that waiting costs less, or because the last one was just now.
create function public.giftcard_is_woken_often(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_is_woken_just_now(p_now) or exists (
    select from public.giftcard_wakes
     where id = 1 and minute = date_trunc('minute', p_now) and in_minute >= 10);
end $$;

-- Plan the next wake by the database, unless an earlier one is planned. p_replaces: by a tick that ends, which knows
-- when the next job is due (null: none waits). Never waits for a lock.
create function public.giftcard_plan_wake(
  p_due_at timestamptz, p_now timestamptz, p_replaces boolean default false, p_held_back boolean default false)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_wakes
     set due_at = p_due_at, held_back = held_back + p_held_back::integer
   where id = any (array(
     select w.id from public.giftcard_wakes w
      where w.id = 1 and (w.url is not null or p_held_back) and w.due_at is distinct from p_due_at
        and (p_replaces or w.due_at is null or w.due_at > p_due_at or w.due_at <= p_now)
        for update skip locked));
end $$;

-- Decide whether to wake a tick now: true for one caller a second, if fewer than p_ticks ticks wait for jobs, the
-- minute's wakes are not used up and not everything is paused. The caller then sends the wake. p_catches_up: it is a
-- tick that leaves work, so that the next one has some in any case, and no limit of a minute. Waits for no lock. A
-- time far ahead of p_now was written while a clock went wrong, and holds nothing up; one just ahead is that of another
-- caller of this moment.
create function public.giftcard_take_wake(
  p_ticks integer default 1, p_catches_up boolean default false, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_minute timestamptz := date_trunc('minute', v_now);
  w public.giftcard_wakes;
begin
  select * into w from public.giftcard_wakes where id = 1;
  if not found or exists (select from public.giftcard_stages where stage = '*' and paused_at is not null)
     or public.giftcard_waiting_ticks(v_now) >= p_ticks then
    return false;
  elsif w.minute = v_minute and w.in_minute >= 20 and not p_catches_up then
    perform public.giftcard_plan_wake(v_minute + interval '1 minute', v_now, false, true);
    return false;
  elsif w.sent_at > v_now - interval '1 second' and w.sent_at < v_now + interval '10 seconds' then
    perform public.giftcard_plan_wake(w.sent_at + interval '1 second', v_now);
    return false;
  end if;
  update public.giftcard_wakes k
     set sent_at = v_now, due_at = null, sent = k.sent + 1, minute = v_minute,
         in_minute = case when k.minute = v_minute then k.in_minute else 0 end + 1,
         lost = k.lost + public.giftcard_is_wake_lost(k.sent_at, v_now)::integer
   where k.id = any (array(
     select f.id from public.giftcard_wakes f
      where f.id = 1 and f.sent_at is not distinct from w.sent_at for update skip locked));
  return found;
end $$;

-- Return whether no tick has followed a wake of that time, of the newest 200. A wake has ten seconds.
create function public.giftcard_is_wake_lost(p_sent_at timestamptz, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return coalesce(p_sent_at < p_now - interval '10 seconds', false) and not exists (
    select from (select source, started_at from public.giftcard_ticks order by id desc limit 200) t
     where t.source = 'wake' and t.started_at between p_sent_at and p_sent_at + interval '10 seconds');
end $$;
